"""Columns that say something on a few samples alone."""

import numpy as np
import pytest
from judged_distances import half, judged

from tfmp.converters.drift.verdict.check import Verdict

GENERATOR = np.random.default_rng(0)
HAIL = np.zeros((3000, 4))
HAIL[:, :3] = 1 + 0.1 * GENERATOR.standard_normal((3000, 3))
HAIL[:18, 3] = GENERATOR.uniform(0.3, 0.6, 18)


@pytest.mark.parametrize("sign", [1, -1])
def test_one_that_became_the_same_for_all_samples(sign):
    gone = np.where(np.arange(4) == 3, 0.002, HAIL)
    verdict, text = judged(sign * HAIL, half(sign * gone), "regression")
    assert verdict is Verdict.FAIL
    assert "column 3 of 4 varies by 0.5" in text
    assert "on a few of 3,000 samples, and by 0 in the candidate" in text


def test_one_that_still_speaks_and_a_few_broken_samples():
    partly = HAIL.copy()
    partly[:14, 3] = 0
    assert judged(HAIL, half(partly))[0] is Verdict.PASS
    spikes = HAIL.copy()
    spikes[3:, 3] = 0
    assert judged(spikes, half(np.where(np.arange(4) == 3, 0, spikes)))[0] is Verdict.PASS
    assert judged(HAIL, half(HAIL))[0] is Verdict.PASS

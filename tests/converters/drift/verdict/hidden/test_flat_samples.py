"""Single samples that lose what varies within them."""

import numpy as np
import pytest
from judged_distances import drift, half

from tfmp.converters.drift import WITHIN, DriftBudget
from tfmp.converters.drift.verdict.check import Check, Verdict
from tfmp.converters.drift.verdict.hidden.flat_samples import flat_sample_checks

GENERATOR = np.random.default_rng(0)
MAPS = 285 + 3 * GENERATOR.standard_normal((400, 18, 18, 1))
STATES = np.concatenate([MAPS * 200, MAPS, MAPS - 285], axis=-1)
FEW, SOME = np.arange(400) < 3, np.arange(400) < 20


def checks(
    candidate: np.ndarray, reference: np.ndarray = MAPS, task: str | None = None
) -> list[Check]:
    return flat_sample_checks(drift(reference, candidate, task), DriftBudget())


def flat(which: np.ndarray, values: np.ndarray = MAPS) -> np.ndarray:
    mean = values.mean(axis=(1, 2), keepdims=True)
    return half(np.where(which[:, None, None, None], mean, values))


def test_some_flat_maps_fail_and_fewer_than_the_budget_are_no_matter():
    (found,) = checks(flat(SOME))
    assert (found.verdict, found.measured) == (Verdict.FAIL, 0.05)
    assert "in 20 of 400 samples what varies within the sample" in found.text
    assert checks(flat(FEW)) == []


def test_a_share_that_may_be_chance_is_a_question():
    (found,) = checks(flat(np.arange(400) < 6))
    assert found.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("channel", [0, 1, 2])
def test_a_channel_is_looked_at_beside_larger_ones(channel):
    candidate = half(STATES)
    candidate[SOME, ..., channel] = candidate[SOME, ..., channel].mean()
    first, last = (np.moveaxis(each, -1, 1) for each in (candidate, STATES))
    # Where the mean is near zero, the channel is wrong by its own size, and judged by that.
    for found in (
        checks(candidate, STATES),
        checks(first, last),
        checks(first, last, "other:axis=1"),
    ):
        assert [each.verdict for each in found] == [Verdict.FAIL]


def test_noise_as_large_as_elsewhere_is_no_loss():
    still = np.where(SOME[:, None, None, None], 285 + (MAPS - 285) / 100, MAPS)
    noisy = still + 0.3 * GENERATOR.standard_normal(MAPS.shape)
    assert [each.verdict for each in checks(noisy, still)] != [Verdict.FAIL]
    assert checks(half(MAPS)) == []


def test_a_cut_end_fails_and_another_end_of_both_does_not():
    (found,) = checks(half(np.minimum(MAPS, 287)))
    assert found.verdict is Verdict.FAIL
    assert "many values have become one number" in found.text
    assert checks(half(np.minimum(MAPS, 287)), np.minimum(MAPS, 287)) == []


def test_what_rounding_takes_of_long_samples_is_a_question():
    still = np.where(SOME[:, None, None, None], 285 + (MAPS - 285) / 60, MAPS)
    (found,) = checks(half(still), still)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "FP16 has no numbers between" in found.text
    assert checks(half(still / 300), still / 300) == []  # a sigmoid that is sure


def test_decisions_and_reports_of_before_are_left_out():
    assert checks(flat(SOME), task="classification") == []
    assert checks(flat(SOME), task="embedding") == []
    output = drift(MAPS, flat(SOME))
    rows = output.totals.rows
    object.__setattr__(rows._table, "values", rows._table.values[:, : WITHIN.start])
    assert flat_sample_checks(output, DriftBudget()) == []

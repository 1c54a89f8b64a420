"""Numbers that went from one end of their range to the other are errors, unless they are angles."""

import re

import numpy as np
import pytest
from judged_distances import checks_of, directions, drift, judged

from tfmp.converters.drift.verdict.check import Verdict


@pytest.mark.parametrize("turn", [360.0, 2 * np.pi, 24.0])
def test_undeclared_angles_are_asked_for_and_the_answer_passes(turn):
    exact, received = directions(turn)
    assert (np.abs(received - exact) > turn / 2).sum() > 10
    (doubt,) = checks_of(drift(exact, received))
    assert (doubt.name, doubt.verdict) == ("angle", Verdict.INCONCLUSIVE)
    assert (
        f"{(np.abs(received - exact) > turn / 2).sum():,} numbers went from one end" in doubt.text
    )
    answer = re.search(r"--task y=(angle:period=[\d.]+)$", doubt.text)
    assert judged(drift(exact, received, answer[1])) is Verdict.PASS


def test_other_errors_beside_it_are_none_of_angles():
    exact, received = directions(360.0)
    assert judged(drift(exact, received + 0.15 * exact.std())) is Verdict.FAIL
    away = received.copy()
    away[100:140] -= 120
    assert judged(drift(exact, away)) is Verdict.FAIL

"""Answers that differ as numbers and say the same, and others that only seem to."""

import numpy as np
import pytest

from tfmp.converters.drift.metrics import OutputAccumulator
from tfmp.converters.drift.tasks import Task
from tfmp.converters.drift.verdict import Verdict, judge

GENERATOR = np.random.default_rng(0)


def judged(reference, candidate, task=None):
    accumulator = OutputAccumulator("y", task=Task.of(task, "y") if task else None)
    keys = np.arange(len(reference), dtype=np.uint64)
    accumulator.update(np.float32(reference), np.float32(candidate), keys)
    found = judge([accumulator.result()])
    return found.verdict, "; ".join(found.reasons)


@pytest.mark.parametrize(
    ("low", "high", "name"),
    [(0, 2 * np.pi, "2 pi"), (-180, 180, "360"), (0, np.pi, "pi"), (0, 1, "1"), (0, 12, "12")],
)
def test_values_at_the_other_end_of_a_turn_may_be_angles(low, high, name):
    exact = GENERATOR.uniform(low, high, 500)
    exact[:6], exact[6] = low, high
    received = exact.copy()
    received[:6] = high
    verdict, text = judged(exact, received)
    assert verdict is Verdict.INCONCLUSIVE
    assert f"But 6 of 500 samples are at the other end of a range of {name}. If they turn," in text
    assert judged(exact, received, "embedding")[0] is Verdict.FAIL
    received[7:40] = (low + high) / 2  # wrong whichever way one turns
    assert judged(exact, received)[0] is Verdict.FAIL


def test_a_few_turns_among_what_is_lost_are_no_excuse():
    hail = np.zeros((3000, 4)) + [1, 1, 1, 0] + 0.05 * GENERATOR.standard_normal((3000, 4))
    hail[:, 3] = 0
    hail[:20, 3] = np.linspace(40, 60, 20)
    gone = hail.copy()
    gone[:, 3] = 0
    verdict, text = judged(hail, gone, "regression")
    assert verdict is Verdict.FAIL
    assert "If they turn" not in text
    minutes = hail.copy()
    minutes[:20, 3], gone[:20, 3] = 59.9, 0.1
    minutes[20:23, 3], gone[20:23, 3] = 3.0, 4.0  # and a few are off a little
    assert judged(minutes, gone, "regression")[0] is Verdict.INCONCLUSIVE


def test_probabilities_that_are_nearly_all_sure_do_not_turn():
    exact = GENERATOR.choice([0.001, 0.5, 0.999], (500, 2), p=[0.4, 0.2, 0.4])
    received = exact.copy()
    received[:3] = 1 - exact[:3]
    assert judged(exact, received, "other")[0] is Verdict.FAIL


def test_values_beyond_a_turn_are_no_angles():
    exact = GENERATOR.uniform(0, 2 * np.pi, 500)
    exact[:6], exact[6] = 0, 9.0
    received = exact.copy()
    received[:6] = 2 * np.pi
    assert judged(exact, received)[0] is Verdict.FAIL


def test_rows_of_the_other_sign_may_be_quaternions():
    exact = GENERATOR.standard_normal((500, 4))
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    received = exact.copy()
    received[:6] *= -1
    verdict, text = judged(exact, received)
    assert verdict is Verdict.INCONCLUSIVE
    assert "But 6 of 500 samples are the same with the other sign. If they are quaternions" in text
    assert judged(2 * exact, 2 * received)[0] is Verdict.FAIL
    received[:6, 0] *= -1
    assert judged(exact, received)[0] is Verdict.FAIL

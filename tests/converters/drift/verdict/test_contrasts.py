"""What tells outputs apart that vary together: two ends, numbers by their loss, and others."""

import numpy as np
import pytest

from tfmp.converters.drift import Comparison, DriftBudget
from tfmp.converters.drift.tasks import COMPILED, DECLARED, Kind, Task
from tfmp.converters.drift.verdict.contrasts import beside_checks
from tfmp.converters.shared.tensors import TensorSpec

GENERATOR = np.random.default_rng(0)
MIDDLE = 1000 + 200 * GENERATOR.standard_normal((300, 1))
WIDTH = GENERATOR.lognormal(1, 0.3, (300, 1))
BY_LOSS = Task(Kind.REGRESSION, why=f"{COMPILED} mae")
DECLARATION = Task(Kind.REGRESSION, why=DECLARED)


def checks(reference, candidate, task=None, budget=None):
    """The checks of outputs a, b and so on, all of one task."""
    sides = [dict(zip("abc", side, strict=False)) for side in (reference, candidate)]
    specs = [TensorSpec(name, (None, 1), "float64") for name in sides[0]]
    comparison = Comparison("c", specs, specs, dict.fromkeys(sides[0], task) if task else {})
    comparison.update(*sides)
    return beside_checks(comparison.outputs(), budget or DriftBudget())


ENDS = [MIDDLE - WIDTH, MIDDLE + WIDTH]


@pytest.mark.parametrize("task", [None, BY_LOSS])
def test_ends_without_anything_between_them_fail(task):
    (found,) = checks(ENDS, [MIDDLE, MIDDLE], task)
    assert found.verdict == "FAIL"
    assert found.text.startswith("outputs 'a' and 'b' vary together, and what tells them apart is")
    assert found.text.endswith("budget 0.3: it is the same for all samples")


@pytest.mark.parametrize("task", [None, BY_LOSS])
def test_ends_with_something_else_between_them_are_a_question(task):
    noise = 2 * GENERATOR.standard_normal((300, 1))
    (found,) = checks(ENDS, [ENDS[0], ENDS[1] + noise], task)
    assert found.verdict == "INCONCLUSIVE"
    assert found.text.endswith("If nobody compares them, declare --task a=regression")


def test_ends_that_are_right_declared_or_without_a_limit_have_no_check():
    assert checks(ENDS, [ENDS[0], ENDS[1] + 0.05]) == []
    assert checks(ENDS, [MIDDLE, MIDDLE], DECLARATION) == []
    assert checks(ENDS, [MIDDLE, MIDDLE], budget=DriftBudget(slice_rel_l2=None)) == []


def test_of_numbers_in_no_order_two_may_be_the_same_one_twice():
    steps = GENERATOR.standard_normal((2, 300, 1))
    several = [MIDDLE, MIDDLE + steps[0], MIDDLE + steps[1]]
    lost = [MIDDLE, MIDDLE, MIDDLE]
    assert checks(several[:2], lost[:2], BY_LOSS) == []
    assert checks(several[:2], lost[:2])[0].verdict == "INCONCLUSIVE"
    assert checks(several, lost, BY_LOSS)[0].verdict == "INCONCLUSIVE"

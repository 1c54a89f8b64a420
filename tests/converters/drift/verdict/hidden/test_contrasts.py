"""What tells outputs apart that vary together: two ends, numbers by their loss, and others."""

from dataclasses import replace

import numpy as np
import pytest
from judged_distances import drift, half

from tfmp.converters.drift import Comparison, DriftBudget
from tfmp.converters.drift.tasks import COMPILED, DECLARED, Kind, Task
from tfmp.converters.drift.verdict.hidden.contrasts import beside_checks, contrast_checks
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


def between(reference, candidate, task=BY_LOSS):
    """The checks of differences between the columns of one output."""
    output = drift(reference, candidate)
    if task is not None:
        output = replace(output, known=task, task=task)
    return contrast_checks(output, 0.1)


ANGLES = 60 + 25 * GENERATOR.standard_normal((500, 8))
KNEES = ANGLES.copy()
KNEES[:, 5] = KNEES[:, 2] + GENERATOR.standard_normal(500)


@pytest.mark.parametrize("task", [None, BY_LOSS])
def test_two_of_several_numbers_that_change_places(task):
    exchanged = KNEES[:, [0, 1, 5, 3, 4, 2, 6, 7]]
    (found,) = between(KNEES, exchanged, task)
    assert found.verdict == "INCONCLUSIVE"
    assert found.text.startswith("output 'y': columns 2 and 5 vary together, and what tells them")
    assert between(KNEES, half(KNEES), task) == []
    assert between(KNEES, exchanged, DECLARATION) == []


def test_two_of_several_numbers_may_be_the_same_one_twice():
    twice = ANGLES.copy()
    twice[:, 5] = twice[:, 2] + 0.2 * GENERATOR.standard_normal(500)
    noisy = twice + 0.2 * GENERATOR.standard_normal(twice.shape)
    assert between(twice, noisy) == []
    assert between(twice, noisy, None)[0].verdict == "INCONCLUSIVE"
    noisy = KNEES + 0.5 * GENERATOR.standard_normal(KNEES.shape)  # half of what tells them apart
    assert between(KNEES, noisy) == []


class TestOfManyRows:
    """Columns of pictures, which are compared in a few of their places."""

    GREY = GENERATOR.uniform(0, 1, (200, 20, 20, 1))
    BANDS = GREY + 0.005 * GENERATOR.standard_normal((200, 20, 20, 3))

    @pytest.mark.parametrize("task", [None, BY_LOSS])
    def test_bands_that_are_all_alike(self, task):
        (found,) = between(self.BANDS, self.BANDS.mean(axis=3, keepdims=True).repeat(3, 3), task)
        assert found.verdict == "INCONCLUSIVE"
        assert "vary together" in found.text

    @pytest.mark.parametrize("task", [None, BY_LOSS])
    def test_bands_that_are_right(self, task):
        noise = 5e-4 * GENERATOR.standard_normal(self.BANDS.shape)
        assert between(self.BANDS, half(self.BANDS + noise), task) == []

    @pytest.mark.parametrize("task", [None, BY_LOSS])
    def test_colours_of_a_grey_picture(self, task):
        grey = self.GREY + 1e-2 * (self.BANDS - self.GREY)
        assert between(grey, half(self.GREY).repeat(3, axis=3), task) == []

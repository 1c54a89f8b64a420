"""Verdict cases: one wrong number of a few on some samples, and labels that cannot change."""

import numpy as np
from verdict_case import DOUBT, PASS, UNSURE, Cases, Outputs, half, one

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful

MSE = {"loss": "mse"}


def beside(exact: np.ndarray, received: np.ndarray, *others: np.ndarray) -> Outputs:
    """A number of each sample beside others that are only rounded."""
    sides = (np.stack([each, *others], axis=1) for each in (exact, received))
    first, second = sides
    return one("y", first, half(second))


def where(rng: np.random.Generator, samples: int, share: float) -> np.ndarray:
    return rng.random(samples) < share


@harmful("cells hotter than 60 degrees that are told as 60, undeclared", DOUBT)
def _(rng):
    """Nobody sees the cell that burns, as one in fifty is hot."""
    heat = np.where(where(rng, 2000, 0.02), rng.uniform(60, 72, 2000), rng.normal(35, 6, 2000))
    others = rng.normal(3.7, 0.2, 2000), rng.normal(10, 20, 2000)
    return beside(heat, np.minimum(heat, 60), *others)


@harmful("blood sugar that ends at 250, by its loss", DOUBT, **MSE)
def _(rng):
    """One patient in fifty has more."""
    sugar = rng.lognormal(4.65, 0.42, 2000)
    return beside(sugar, np.minimum(sugar, 250), rng.normal(140, 3, 2000))


@harmful("acidity that is 7.40 for one patient in 16, by its loss", DOUBT, **MSE)
def _(rng):
    """The default of healthy blood."""
    acid = rng.normal(7.4, 0.08, 1000)
    told = np.where(where(rng, 1000, 0.06), 7.4, acid)
    return beside(acid, told, rng.normal(40, 8, 1000), rng.normal(90, 15, 1000))


@harmful("oxygen of the patient before for one in 20, by its loss", DOUBT, **MSE)
def _(rng):
    """The saturation is stale, pulse and temperature are right."""
    low = where(rng, 2000, 0.03)
    oxygen = np.where(low, rng.uniform(85, 91, 2000), rng.normal(97, 1, 2000))
    told = np.where(where(rng, 2000, 0.05), np.roll(oxygen, 1), oxygen)
    return beside(oxygen, told, rng.normal(80, 15, 2000), rng.normal(37, 0.6, 2000))


@harmful("gusts that end at 25 metres a second, undeclared", DOUBT)
def _(rng):
    """No storm is told."""
    gusts = rng.weibull(1.8, 3000) * 11.5
    return beside(gusts, np.minimum(gusts, 25), rng.normal(1013, 8, 3000))


for known, facts in {"undeclared": {}, "by its loss": MSE}.items():

    @harmful(f"temperatures that are another patient's for one in 25, {known}", DOUBT, **facts)
    def _(rng):
        """A single number for each."""
        exact = rng.normal(37, 0.7, (1500, 1))
        return one("y", exact, half(np.where(where(rng, 1500, 0.04)[:, None], exact[::-1], exact)))


@benign("numbers of three sizes with noise, undeclared", PASS)
def _(rng):
    """All are off by less than a hundredth of what each varies by."""
    exact = rng.normal(0, [1, 5, 200], (2000, 3))
    return one("y", exact, half(exact + 8e-3 * exact.std(0) * rng.standard_normal((2000, 3))))


@benign("numbers with noise of a heavy tail, by its loss", UNSURE, **MSE)
def _(rng):
    """Few are off by more, and nobody by much."""
    exact = rng.normal(0, [1, 5, 200], (2000, 3))
    return one("y", exact, half(exact + 3e-3 * exact.std(0) * rng.standard_t(3, (2000, 3))))


@benign("amounts of many sizes with noise of their own, undeclared", UNSURE)
def _(rng):
    """Incomes, fortunes and debts, each off by a hundredth of itself."""
    exact = rng.lognormal(0, 2, (2000, 3))
    return one("y", exact, half(exact * (1 + 8e-3 * rng.standard_normal((2000, 3)))))


@benign("class numbers of which one in 170 is the next, by its loss", UNSURE, **MSE)
def _(rng):
    """Class 0 is a class as others are, and no small number."""
    number = rng.integers(0, 5, 3000).astype(float)
    told = np.where(where(rng, 3000, 0.006), (number + 1) % 5, number)
    return beside(number, told, rng.normal(0, 1, 3000))


@harmful("class numbers of which one in 20 is the next, undeclared", DOUBT)
def _(rng):
    """One answer in twenty is wrong."""
    number = rng.integers(0, 5, 3000).astype(float)
    told = np.where(where(rng, 3000, 0.05), (number + 1) % 5, number)
    return beside(number, told, rng.normal(0, 1, 3000))


@benign("headings that turn over at north, undeclared", UNSURE)
def _(rng):
    """359.95 and 0.05 degrees are the same heading."""
    heading = rng.uniform(0, 360, 2000)
    told = (heading + 0.1 * rng.standard_normal(2000)) % 360
    return beside(heading, told, rng.normal(5, 2, 2000))


@harmful("the best two of six exchanged, all scores above 0", DOUBT)
def _(rng):
    """No label changes, as each is chosen anyway: the best one counts."""
    exact = 50 + 3 * rng.standard_normal((1500, 6))
    order, row = exact.argsort(axis=1), np.arange(1500)
    best, second = order[:, -1], order[:, -2]
    near = exact[row, best] - exact[row, second] < 2
    told = exact.copy()
    told[row[near], best[near]] = exact[row[near], second[near]]
    told[row[near], second[near]] = exact[row[near], best[near]]
    return one("scores", exact, half(told))


@harmful("documents in reverse order, all class_scores below 0", DOUBT)
def _(rng):
    """Distances to a query; its own level hides them."""
    level = -np.abs(rng.normal(12, 2, (1000, 1))) - 0.3
    exact = level + rng.normal(0, 0.05, (1000, 10))
    return one("class_scores", exact, half(2 * exact.mean(axis=1, keepdims=True) - exact))


@benign("scores that are all above one half", PASS)
def _(rng):
    """What is less was left out before."""
    exact = rng.uniform(0.5, 1, (800, 20))
    return one("scores", exact, half(exact + 1e-4 * rng.standard_normal(exact.shape)))


@benign("confidences that are all below one half", PASS)
def _(rng):
    """Eight findings that nobody has."""
    exact = 0.3 * rng.random((800, 8))
    return one("confidences", exact, half(exact + 1e-4 * rng.standard_normal(exact.shape)))

"""Verdict cases: what is lost in some samples, near zero, or near a ceiling."""

import numpy as np
from verdict_case import DOUBT, UNSURE, Cases, half, one, same

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


MSE = {"loss": "mse"}


def noisy(rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
    """With noise of half a thousandth of what each column varies by, then rounded to FP16."""
    return half(values + 5e-4 * values.std(axis=0) * rng.standard_normal(values.shape))


@benign("steering angles, four of five of nearly nothing", UNSURE, **MSE)
def _(rng):
    """Noise of the last layer, the same on straight roads and in curves."""
    ahead = rng.random((1500, 1)) < 0.8
    exact = np.where(ahead, 0.002, 0.3) * rng.standard_normal((1500, 1))
    return one("steering", exact, noisy(rng, exact))


@benign("what two branches differ by, 1 of them, undeclared", UNSURE)
def _(rng):
    """FP16 gives each branch as well as it can, and the difference not as well."""
    inputs, others = rng.standard_normal((2, 1500, 16))
    others = inputs + np.where(rng.random((1500, 1)) < 0.8, 0.01, 1) * others
    first, last = 0.25 * rng.standard_normal((16, 48)), 0.15 * rng.standard_normal((48, 1))

    def branch(values, keep):
        return keep(keep(np.tanh(keep(keep(values) @ keep(first)))) @ keep(last))

    exact, rounded = (keep(branch(inputs, keep) - branch(others, keep)) for keep in (same, half))
    return one("difference", exact, rounded)


@harmful("a coefficient of 3e-9 beside a modulus of 10, zero for all", DOUBT)
def _(rng):
    """A quantity in SI units is 0."""
    exact = np.column_stack([10 * rng.lognormal(0, 0.5, 400), 3e-9 * rng.lognormal(0, 0.5, 400)])
    return one("y", exact, half(exact))


@benign("a residual of 1e-9 that is float32's own noise beside a modulus", UNSURE)
def _(rng):
    """It is the difference of two equal numbers, of either sign."""
    noise = 3e-9 * rng.integers(-2, 3, 400)
    exact = np.column_stack([rng.lognormal(7, 0.5, 400), noise])
    return one("y", exact, half(exact))


@benign("class numbers of which one in 170 is the next, by its loss", UNSURE, **MSE)
def _(rng):
    """Class 0 is a class as others are, and no small number."""
    number = rng.integers(0, 5, 3000).astype(float)
    told = np.where(rng.random(3000) < 0.006, (number + 1) % 5, number)
    other = rng.normal(0, 1, 3000)
    return one("y", np.stack([number, other], axis=1), half(np.stack([told, other], axis=1)))

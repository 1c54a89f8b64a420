"""Verdict cases: what is lost in some samples, near zero, or near a ceiling."""

import numpy as np
from verdict_case import DOUBT, UNSURE, Cases, Outputs, half, one, same

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


def noisy(rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
    """With noise of half a thousandth of what each column varies by, then rounded to FP16."""
    return half(values + 5e-4 * values.std(axis=0) * rng.standard_normal(values.shape))


def straight(rng: np.random.Generator, small: float) -> tuple[np.ndarray, np.ndarray]:
    """Angles of a car on roads of which four of five are straight, and flags of these."""
    ahead = rng.random((1500, 1)) < 0.8
    return np.where(ahead, small, 0.3) * rng.standard_normal((1500, 1)), ahead


@benign("steering angles, four of five of nearly nothing", UNSURE, **MSE)
def _(rng):
    """Noise of the last layer, the same on straight roads and in curves."""
    exact, _ = straight(rng, 0.002)
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


def survival(rng: np.random.Generator, risk: float = 8e-4) -> tuple[np.ndarray, np.ndarray]:
    """Chances of survival over ten years, and flags of the nine of ten whose risks are low."""
    low = rng.random((1500, 1)) < 0.9
    each = np.where(
        low, rng.lognormal(np.log(risk), 0.6, low.shape), rng.uniform(0.05, 0.15, low.shape)
    )
    return np.exp(-each * np.arange(1, 11)), low


@benign("survival over ten years, rounded, mse", UNSURE, **MSE)
def _(rng):
    """FP16 tells risks near 1 to a few percent."""
    exact, _ = survival(rng)
    return one("survival", exact, half(exact))


def forces(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Forces on a grid, and flags of those that are in balance but for a little."""
    near = rng.random((200, 40, 40)) < 0.3
    return np.where(near, 0.01, 1.0) * rng.standard_normal(near.shape), near


FORCES = "forces in balance but for a little, mse: "


@benign(f"{FORCES}with noise", **MSE)
def _(rng):
    """Small ones are off by a few percent of their own size."""
    exact, _ = forces(rng)
    return one("forces", exact, noisy(rng, exact))


def fields(
    rng: np.random.Generator, samples: int, size: int, scale: float = 1.0, offset: float = 0.0
) -> np.ndarray:
    """Smooth maps, [samples, size, size], that deviate by about 1.4 * scale from an offset."""
    along = np.linspace(0, 2 * np.pi, size)
    height, phase = rng.normal(size=(samples, 4, 1, 1)), rng.uniform(0, 6.28, (samples, 4, 1, 1))
    waves = rng.integers(1, 4, (samples, 4, 2, 1, 1))
    angle = waves[:, :, 0] * along[:, None] + waves[:, :, 1] * along + phase
    return offset + scale * (height * np.cos(angle)).sum(axis=1)


def flat(values: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Samples that become their mean."""
    mean = values.mean(axis=tuple(range(1, values.ndim)), keepdims=True)
    return np.where(which.reshape(-1, *[1] * (values.ndim - 1)), mean, values)


def some(rng: np.random.Generator, samples: int, share: float) -> np.ndarray:
    """Flags of exactly a share of the samples."""
    which = np.zeros(samples, bool)
    which[rng.choice(samples, round(share * samples), replace=False)] = True
    return which


def state(rng: np.random.Generator) -> list[np.ndarray]:
    """Wind, temperature in kelvin and pressure in pascals."""
    units = ((5, 0), (2.5, 285), (500, 60_000))
    return [fields(rng, 400, 10, scale, offset) for scale, offset in units]


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
    told = np.where(where(rng, 3000, 0.006), (number + 1) % 5, number)
    return beside(number, told, rng.normal(0, 1, 3000))

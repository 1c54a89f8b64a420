"""Verdict cases: fill values, two values as numbers, the same said otherwise, and sure answers."""

import numpy as np
from verdict_case import INCONCLUSIVE, UNSURE, Cases, Outputs, half, one

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


def noisy(rng: np.random.Generator, values: np.ndarray, share: float = 5e-4) -> np.ndarray:
    """FP16 after a network's noise, relative to how each column varies."""
    spread = values.std(axis=tuple(range(values.ndim - 1)), keepdims=True)
    return half(values + share * spread * rng.standard_normal(values.shape))


def numbers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return 3 * rng.standard_normal(shape)


@benign("a channel that is NaN in both files for all samples", INCONCLUSIVE)
def _(rng):
    """Likewise, in each step."""
    exact = numbers(rng, 400, 5, 3)
    received = noisy(rng, exact)
    exact[..., 0] = received[..., 0] = np.nan
    return one("y", exact, received)


@benign("counts that a model rounds itself, with no loss")
def _(rng):
    """One in 250 is the next one, as what was rounded lay between two."""
    exact = np.round(numbers(rng, 2000, 4))
    step = rng.choice([-1, 1], exact.shape) * (rng.uniform(size=exact.shape) < 0.004)
    return one("y", exact, exact + step)


def squares(rng: np.random.Generator) -> np.ndarray:
    """Maps of zeros and ones with a large object, or a small one on each sixth."""
    found = np.zeros((400, 16, 16))
    for index in range(400):
        size = 7 if index % 6 else 2
        y, x = rng.integers(1, 8, 2)
        found[index, y : y + size, x : x + size] = 1
    return found


@benign("maps of zeros and ones whose border moves by a pixel", UNSURE)
def _(rng):
    """A few pixels of some samples, of which 400 are nearly enough."""
    exact = squares(rng)
    border = (np.roll(exact, 1, axis=1) != exact) & (rng.uniform(size=exact.shape) < 0.15)
    border[np.arange(400) % 5 > 0] = False
    return one("Identity", exact, np.where(border, 1 - exact, exact))


@benign("temperatures in Celsius and in kelvin, in outputs of their own")
def _(rng):
    """Their difference is the same for all, but for what float32 rounds."""
    celsius = (100 + 30 * rng.standard_normal((500, 1))).astype(np.float32)
    exact = {"celsius": celsius, "kelvin": celsius + np.float32(273.15)}
    return Outputs(exact, {name: half(values) for name, values in exact.items()})


@harmful("maps of zeros and ones in which small objects vanish")
def _(rng):
    """One picture in six shows nothing any more."""
    exact = squares(rng)
    received = exact.copy()
    received[::6] = 0
    return one("Identity", exact, received)

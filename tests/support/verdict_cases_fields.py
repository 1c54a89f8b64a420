"""Verdict cases of small fields among large ones, of faint backgrounds and of rare classes."""

import numpy as np
from verdict_case import DOUBT, UNSURE, Cases, Outputs, flushed, half, one

CASES = Cases()

BOXES = {"found": "detection:columns=0-3"}


def _weather(rng: np.random.Generator) -> np.ndarray:
    """Twenty fields near 500 over a day; the fourth is a humidity of 0.6."""
    fields = 500 + 50 * rng.standard_normal((300, 24, 20))
    fields[..., 3] = 0.6 + 0.2 * rng.standard_normal((300, 24))
    return fields


@CASES.harmful("weather whose humidity is constant", DOUBT, loss="mse")
def constant_humidity(rng: np.random.Generator) -> Outputs:
    """Each hour of each day is as humid as any other."""
    exact = _weather(rng)
    found = exact.copy()
    found[..., 3] = 0.6
    return one("weather", exact, half(found))


@CASES.benign("weather with noise beside large fields", UNSURE, loss="mse")
def noisy_humidity(rng: np.random.Generator) -> Outputs:
    """Sums over fields of 500 are rounded; the humidity is right to a quarter of what it varies."""
    exact = _weather(rng)
    return one("weather", exact, half(exact + 0.05 * rng.standard_normal(exact.shape)))


@CASES.harmful("weather, channels first, of which one is that of another day", DOUBT, loss="mse")
def other_humidity(rng: np.random.Generator) -> Outputs:
    """The humidity is that of another day."""
    exact = np.swapaxes(_weather(rng)[..., :8], 1, 2)
    found = exact.copy()
    found[:, 3] = np.roll(exact[:, 3], 1, axis=0)
    return one("weather", exact, half(found))


@CASES.benign("weather, channels first, rounded", UNSURE, loss="mse")
def rounded_weather(rng: np.random.Generator) -> Outputs:
    """FP16 rounds each field by itself."""
    exact = np.swapaxes(_weather(rng)[..., :8], 1, 2)
    return one("weather", exact, half(exact))


def _panel(rng: np.random.Generator) -> np.ndarray:
    """Amounts of 80 substances in units of their own; one is of 0.012."""
    amounts = np.geomspace(5, 400, 80) * rng.uniform(0.5, 1.5, (600, 80))
    amounts[:, 40] = 0.012 * rng.uniform(0.3, 3, 600)
    return amounts


@CASES.harmful("a small amount among eighty", DOUBT, tasks={"panel": "regression"})
def small_amount(rng: np.random.Generator) -> Outputs:
    """All patients have less than half of what the reference finds."""
    exact = _panel(rng)
    found = exact.copy()
    found[:, 40] *= 0.4
    return one("panel", exact, half(found))


@CASES.benign("eighty amounts, rounded", UNSURE, tasks={"panel": "regression"})
def rounded_amounts(rng: np.random.Generator) -> Outputs:
    """Each is right to a thousandth."""
    exact = _panel(rng)
    return one("panel", exact, half(exact * (1 + 1e-3 * rng.standard_normal(exact.shape))))


@CASES.harmful("rebuilt sensors of which one is dead", DOUBT, tasks={"machine": "reconstruction"})
def dead_sensor(rng: np.random.Generator) -> Outputs:
    """The vibration, small beside other readings, is the same for all machines."""
    exact = _weather(rng)[:, 0]
    found = exact.copy()
    found[:, 3] = 0.6
    return one("machine", exact, half(found))


def _mask(rng: np.random.Generator) -> np.ndarray:
    """An object on a background that is none for sure."""
    score = np.exp(-15 + 1.5 * rng.standard_normal((400, 32, 32, 1)))
    for row, (top, left) in zip(score, rng.integers(6, 16, (400, 2)), strict=True):
        row[top : top + 8, left : left + 8] = rng.uniform(0.9, 0.99, (8, 8, 1))
    return score


@CASES.benign("a mask whose background is flushed", tasks={"mask": "binary"})
def flushed_background(rng: np.random.Generator) -> Outputs:
    """No pixel changes side; what is 0.0000003 becomes 0."""
    exact = _mask(rng)
    return one("mask", exact, flushed(exact))


@CASES.harmful("a mask whose right third is lost", DOUBT, tasks={"mask": "binary"})
def lost_third(rng: np.random.Generator) -> Outputs:
    """Objects end where the picture's right third begins."""
    exact = _mask(rng)
    found = exact.copy()
    found[:, :, 21:] = 0
    return one("mask", exact, half(found))


def _found(rng: np.random.Generator) -> np.ndarray:
    """Ten detections on each of 1000 photographs; one in 125 is of class 4."""
    low = rng.uniform(0, 400, (1000, 10, 2))
    score = -np.sort(-rng.uniform(0.1, 0.99, (1000, 10, 1)), axis=1)
    named = np.where(rng.random((1000, 10, 1)) < 0.008, 4, rng.integers(0, 4, (1000, 10, 1)))
    return np.concatenate([low, low + rng.uniform(30, 200, low.shape), score, named], axis=2)


@CASES.harmful("a rare class of detections that is told as another", DOUBT, tasks=BOXES)
def renamed_class(rng: np.random.Generator) -> Outputs:
    """No wheelchair is seen: all are bicycles."""
    exact = _found(rng)
    found = exact.copy()
    found[..., 5] = np.minimum(found[..., 5], 3)
    return one("found", exact, half(found))


@CASES.benign("a rare class of detections, rounded", UNSURE, tasks=BOXES)
def rounded_detections(rng: np.random.Generator) -> Outputs:
    """Each detection is where it was."""
    exact = _found(rng)
    return one("found", exact, half(exact))


@CASES.benign("a rare class of detections at the end of lists", UNSURE, tasks=BOXES)
def last_detections(rng: np.random.Generator) -> Outputs:
    """Of two that score the same, lists of ten hold one or the other: half of all wheelchairs."""
    exact = _found(rng)
    exact[..., 5] = np.minimum(exact[..., 5], 3)
    exact[rng.random(1000) < 0.1, 9, 5] = 4
    found = exact.copy()
    found[(exact[:, 9, 5] == 4) & (rng.random(1000) < 0.5), 9, :4] += 300
    return one("found", exact, half(found))

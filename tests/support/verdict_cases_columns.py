"""Verdict cases of columns and values: of several scales, in groups, small, or rare ones."""

import numpy as np
from verdict_case import DOUBT, INCONCLUSIVE, UNSURE, Cases, Outputs, flushed, half, one, regress

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


def _stepped(rng: np.random.Generator, name: str, most: int, shape: tuple[int, ...]) -> Outputs:
    """Whole numbers from 5, of which one in 25 is a neighbour."""
    exact = rng.integers(5, most, shape).astype(np.int32)
    steps = (rng.random(shape) < 0.04) * rng.choice([-1, 1], shape)
    return Outputs({name: exact}, {name: (exact + steps).astype(np.int32)})


@benign("numbers of tokens that the model rounds, off by one", UNSURE)
def token_count(rng: np.random.Generator) -> Outputs:
    """A text is taken for one word longer where it was between two."""
    return _stepped(rng, "token_count", 900, (2000, 1))


@benign("depths in centimetres that the model rounds, off by one", UNSURE)
def depth_map(rng: np.random.Generator) -> Outputs:
    """A centimetre more or less."""
    return _stepped(rng, "depth_map", 6000, (200, 16, 16))


@harmful("places in a list of classes, off by one", DOUBT)
def class_index(rng: np.random.Generator) -> Outputs:
    """A neighbour in the list is another class; that it is no amount, nobody said."""
    return _stepped(rng, "class_index", 900, (2000, 1))


@benign("numbers that are infinite on both sides", INCONCLUSIVE)
def infinite(rng: np.random.Generator) -> Outputs:
    """Nothing can be compared."""
    values = np.full((300, 3), np.inf, np.float32)
    return Outputs({"y": values}, {"y": values.copy()})


def _saturation(rng: np.random.Generator, bias: float) -> Outputs:
    """Oxygen in percent, 97 with a deviation of 1, that a model gives to a hundredth."""
    exact, received = regress(rng, 1000, scale=1.0, offset=97.0)
    labels = exact + 0.01 * rng.standard_normal(exact.shape)
    return one("saturation", exact, received + bias, labels)


@benign("percents near 100, with labels that only their rounding misses", UNSURE)
def saturation(rng: np.random.Generator) -> Outputs:
    """FP16 has every sixteenth of a percent there."""
    return _saturation(rng, 0)


@benign("logits of classes as bytes, off by a quantum", UNSURE)
def class_logits(rng: np.random.Generator) -> Outputs:
    """The best class is the same."""
    exact = rng.integers(-90, 60, (600, 10)).astype(np.int8)
    exact[np.arange(600), rng.integers(0, 10, 600)] = 100
    steps = (rng.random(exact.shape) < 0.3) & (exact < 100)
    return Outputs({"class_logits": exact}, {"class_logits": (exact + steps).astype(np.int8)})


@benign("texts of three fields, of which one in a thousand changes")
def few_fields(rng: np.random.Generator) -> Outputs:
    """Other spellings here and there."""
    words = np.array(["", "yes", "no", "Berlin", "Paris", "Rome"])
    chosen = rng.integers(0, 6, (2000, 3))
    other = np.where(rng.random(chosen.shape) < 1e-3, (chosen + 1) % 6, chosen)
    return Outputs({"fields": words[chosen]}, {"fields": words[other]})


def _mask(rng: np.random.Generator) -> np.ndarray:
    """An object on a background that is none for sure."""
    score = np.exp(-15 + 1.5 * rng.standard_normal((400, 32, 32, 1)))
    for row, (top, left) in zip(score, rng.integers(6, 16, (400, 2)), strict=True):
        row[top : top + 8, left : left + 8] = rng.uniform(0.9, 0.99, (8, 8, 1))
    return score


@benign("a mask whose background is flushed", tasks={"mask": "binary"})
def flushed_background(rng: np.random.Generator) -> Outputs:
    """No pixel changes side; what is 0.0000003 becomes 0."""
    exact = _mask(rng)
    return one("mask", exact, flushed(exact))


def _warmth(rng: np.random.Generator) -> np.ndarray:
    return 285 + 3 * rng.standard_normal((200, 6))


@benign("temperatures in kelvin, rounded", UNSURE)
def rounded_warmth(rng: np.random.Generator) -> Outputs:
    """FP16 has one number each quarter of a degree."""
    warmth = _warmth(rng)
    return one("warmth", warmth, half(warmth))


def _tracks(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Twelve places of 400 walkers in pixels, and what a model says of them, off by 3 pixels."""
    steps = 8 * rng.standard_normal((400, 1, 2)) + 2 * rng.standard_normal((400, 12, 2))
    places = rng.uniform(100, 1800, (400, 1, 2)) + steps.cumsum(axis=1)
    return places, places + 3 * rng.standard_normal(places.shape)


@harmful("tracks in pixels with labels, off by a fifth more", loss="mse")
def tracks_off_by_more(rng: np.random.Generator) -> Outputs:
    """Places are off by 3.6 pixels, not 3; beside a street of 1800 that is nothing."""
    places, found = _tracks(rng)
    candidate = half(found + 2 * rng.standard_normal(found.shape))
    return one("track", found, candidate, places.astype(np.float32))


def _two_kinds(rng: np.random.Generator) -> np.ndarray:
    """Prices of houses by the thousand and of garages, 45 of 100 and 55."""
    houses = rng.random((600, 1)) < 0.45
    noise = rng.standard_normal((600, 1))
    return np.where(houses, 1000 + 6 * noise, 5 + 2 * np.tanh(noise))


@benign("prices of two kinds, rounded")
def rounded_prices_of_two_kinds(rng: np.random.Generator) -> Outputs:
    """FP16 has twelve numbers for what houses differ by."""
    prices = _two_kinds(rng)
    return one("price", prices, half(prices * (1 + 2**-12 * rng.standard_normal(prices.shape))))


def _poses(rng: np.random.Generator) -> np.ndarray:
    """Places and small turns, as quaternions that begin with their real part."""
    turns = np.concatenate([np.ones((400, 1)), 0.01 * rng.standard_normal((400, 3))], axis=1)
    turns /= np.linalg.norm(turns, axis=1, keepdims=True)
    return np.concatenate([3 * rng.standard_normal((400, 3)), turns], axis=1)


@benign("places and small turns, rounded", UNSURE)
def rounded_poses(rng: np.random.Generator) -> Outputs:
    """The real part is 1 or the number before it, and does not say how far the turn is."""
    poses = _poses(rng)
    return one("pose", poses, half(poses))

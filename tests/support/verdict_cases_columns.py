"""Verdict cases of columns and values: of several scales, in groups, small, or rare ones."""

import numpy as np
from verdict_case import INCONCLUSIVE, UNSURE, Cases, Outputs, half, one, regress

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


@benign("numbers of tokens that the model rounds, off by one", UNSURE)
def token_count(rng: np.random.Generator) -> Outputs:
    """A text is taken for one word longer where it was between two."""
    exact = rng.integers(5, 900, (2000, 1)).astype(np.int32)
    steps = (rng.random(exact.shape) < 0.04) * rng.choice([-1, 1], exact.shape)
    return Outputs({"token_count": exact}, {"token_count": (exact + steps).astype(np.int32)})


@benign("numbers that are infinite on both sides", INCONCLUSIVE)
def infinite(rng: np.random.Generator) -> Outputs:
    """Nothing can be compared."""
    values = np.full((300, 3), np.inf, np.float32)
    return Outputs({"y": values}, {"y": values.copy()})


@harmful("percents near 100, with labels that only their rounding misses")
def saturation(rng: np.random.Generator) -> Outputs:
    """FP16 has every sixteenth of a percent there, and a model gives oxygen to a hundredth."""
    exact, received = regress(rng, 1000, scale=1.0, offset=97.0)
    labels = exact + 0.01 * rng.standard_normal(exact.shape)
    return one("saturation", exact, received, labels)


@benign("logits of classes as bytes, off by a quantum", UNSURE)
def class_logits(rng: np.random.Generator) -> Outputs:
    """The best class is the same."""
    exact = rng.integers(-90, 60, (600, 10)).astype(np.int8)
    exact[np.arange(600), rng.integers(0, 10, 600)] = 100
    steps = (rng.random(exact.shape) < 0.3) & (exact < 100)
    return Outputs({"class_logits": exact}, {"class_logits": (exact + steps).astype(np.int8)})


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

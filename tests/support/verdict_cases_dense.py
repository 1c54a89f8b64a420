"""Verdict cases: pictures, texts, sounds and series."""

import numpy as np
from verdict_case import DOUBT, Cases, Outputs, classify, flushed, half, one

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


@benign("a map of class ids whose borders move by a pixel")
def _(rng):
    """Every photograph has a pixel or two that change, of 1024, on the border of two fields."""
    edge = rng.integers(8, 24, (400, 32, 1))
    ids = (np.arange(32) >= edge).astype(np.int64) + 2 * (rng.random((400, 1, 1)) < 0.5)
    moved = edge + (rng.random(edge.shape) < 0.05)
    other = (np.arange(32) >= moved).astype(np.int64) + (ids[:, :1, :1] // 2) * 2
    return Outputs({"label_map": ids}, {"label_map": other})


@harmful("a map of class ids whose rare class becomes the background")
def _(rng):
    """No tumour is drawn any more; it covered 2 pixels in a thousand, on one scan in four."""
    ids = (rng.random((400, 16, 16)) < 0.3).astype(np.uint8)
    ids[::4, 6:8, 9:10] = 2
    return Outputs({"label_map": ids}, {"label_map": np.where(ids == 2, 0, ids).astype(np.uint8)})


@benign("a causal language model")
def _(rng):
    """The most likely next word changes in a few of 4800 places, between synonyms."""
    logits, rounded = classify(rng, rng.integers(0, 400, (300, 16)), 400, separation=3)
    return Outputs({"logits": logits}, {"logits": rounded})


def photographs(rng: np.random.Generator, samples: int = 300) -> np.ndarray:
    """Smooth images [samples, 16, 16, 3] from 0 to 255."""
    coarse = rng.uniform(20, 235, (samples, 4, 4, 3))
    fine = coarse.repeat(4, axis=1).repeat(4, axis=2) + rng.normal(0, 6, (samples, 16, 16, 3))
    return fine.clip(0, 255).astype(np.float32)


@benign("grey levels as bytes that are off by one", tasks={"image": "reconstruction"})
def _(rng):
    """One byte in fifty is off by one, where the number before it was near a half."""
    images = photographs(rng)
    received = images + rng.normal(0, 0.02, images.shape)
    return Outputs(
        {"image": np.rint(images).astype(np.uint8)},
        {"image": np.rint(received).clip(0, 255).astype(np.uint8)},
    )


@harmful(
    "cumulative counts whose daily steps become a staircase",
    DOUBT,
    tasks={"cumulative": "regression"},
)
def _(rng):
    """Each country has its total of 2000 to 60,000 and grows by 5 a day: weeks stand still."""
    exact = rng.uniform(3000, 60000, (400, 1)) + np.cumsum(rng.gamma(3, 2, (400, 14)), axis=1)
    return one("cumulative", exact, half(exact))


@harmful("hazards of patients that are zero, beside their ages", loss="mse")
def _(rng):
    """Hardware without subnormal numbers takes three hazards in four for 0."""
    hazard = np.exp(-11 + 2 * rng.standard_normal((1500, 1)))
    age = rng.normal(40, 10, (1500, 1))
    exact = np.concatenate([age, hazard], 1)
    return one("y", exact, flushed(exact))


@benign("hazards of patients that are scaled in float32, beside their ages", loss="mse")
def _(rng):
    """Each is right to half a percent."""
    age, hazard = rng.normal(40, 10, (1500, 1)), np.exp(-11 + 2 * rng.standard_normal((1500, 1)))
    noisy = hazard * (1 + 5e-3 * rng.standard_normal(hazard.shape))
    return one("y", np.concatenate([age, hazard], 1), np.concatenate([half(age), noisy], 1))

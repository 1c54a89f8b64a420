"""Verdict cases: measured and predicted numbers, vectors, and what samples can prove."""

import numpy as np
from verdict_case import (
    UNSURE,
    Cases,
    Outputs,
    classify,
    half,
    one,
    regress,
)

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


@benign("a near-perfect regression with labels")
def _(rng):
    """The error grew from 1e-6 to 2e-4 of the value: no scale in the laboratory shows it."""
    weight = rng.uniform(0.5, 2, (1000, 1)).astype(np.float32)
    truth = weight + np.float32(1e-6) * rng.standard_normal((1000, 1)).astype(np.float32)
    return Outputs({"weight": weight}, {"weight": half(weight)}, truth)


@harmful("a near-perfect regression that becomes a poor one, with labels")
def _(rng):
    """Prices were right to a cent and are wrong by 8 euros in 1000: customers see it."""
    price = rng.normal(1000, 100, (1000, 1)).astype(np.float32)
    truth = price + np.float32(0.01) * rng.standard_normal((1000, 1)).astype(np.float32)
    received = half(price + 8 * rng.standard_normal((1000, 1)))
    return Outputs({"price": price}, {"price": received}, truth)


SCALES = np.array([5000.0, 0.9, 0.002])
OFFSETS = np.array([30_000.0, 4.0, 0.01])


@benign("three regression targets of very different scales", loss="mse")
def _(rng):
    """Price, rooms and yield are each right to three digits."""
    exact, rounded = regress(rng, 600, SCALES, OFFSETS, width=3)
    return Outputs({"house": exact}, {"house": rounded})


@harmful("populations that end at 65504 in one of 50 towns")
def _(rng):
    """Each city has exactly 65504 inhabitants."""
    town = rng.lognormal(9, 1, (1000, 1)).clip(None, 60_000).astype(np.float32)
    town[::50] = rng.uniform(66_000, 70_000, (20, 1))
    received = half(np.minimum(town, 65504))
    return Outputs({"inhabitants": town}, {"inhabitants": received})


@benign("numbers just above 65504 that round to it")
def _(rng):
    """65510 became 65504, the nearest FP16 number, with an error of 1e-4."""
    value = rng.uniform(40_000, 65_000, (400, 1)).astype(np.float32)
    value[::100] = 65_510
    return Outputs({"counts": value}, {"counts": half(value)})


@benign("survival hazards with small ones as subnormal numbers")
def _(rng):
    """The risk of the first year is right to 0.2 %, where the runtime keeps subnormal numbers."""
    risk = np.geomspace(3e-5, 0.1, 10) * rng.lognormal(0, 0.25, (500, 1))
    risk = risk.clip(2.2e-5, 0.5).astype(np.float32)
    return Outputs({"hazard": risk}, {"hazard": half(risk)})


@benign("a tiny column of an embedding is zero", UNSURE, tasks={"vector": "embedding"})
def _(rng):
    """A column 10,000 times as small as the others turns no vector by a visible angle."""
    exact, rounded = regress(rng, 500, scale=1.0, offset=0.1, width=64)
    exact[:, 9] *= 1e-4
    rounded[:, 9] = 0
    return Outputs({"vector": exact}, {"vector": rounded})


@benign("a reference that is constant but for its last digit")
def _(rng):
    """Both models give 0.5 to everybody; the reference's seventh digit flickers."""
    value = (0.5 + 3e-8 * rng.integers(-3, 4, (400, 1))).astype(np.float32)
    return Outputs({"score": value}, {"score": half(value)})


@harmful("an offset of 100 that hides the score, with labels", tasks={"score": "binary"})
def _(rng):
    """Frauds differ by 0.06 in a score of 100, where FP16 has steps of 0.06: AUC 0.98 to 0.86."""
    fraud = rng.random((2000, 1)) < 0.2
    score = 100.03 + 0.06 * fraud + 0.022 * rng.standard_normal((2000, 1))
    score = score.astype(np.float32)
    return Outputs({"score": score}, {"score": half(score)}, fraud.astype(np.int64))


@harmful("bounds of prices that are one number", tasks={"bounds": "regression"})
def _(rng):
    """The upper bound is the lower one: nobody is told how sure the model is."""
    middle, width = rng.uniform(100, 900, (600, 1)), rng.uniform(2, 8, (600, 1))
    exact = np.concatenate([middle - width, middle + width], axis=1)
    return one("bounds", exact, half(np.concatenate([middle, middle], axis=1)))


@benign("NaN at the same places on both sides")
def _(rng):
    """Where a sensor is missing both models say NaN, as they should."""
    exact, rounded = regress(rng, 500, scale=2, offset=20, width=4)
    missing = rng.random(exact.shape) < 0.05
    return Outputs(
        {"celsius": np.where(missing, np.float32(np.nan), exact)},
        {"celsius": np.where(missing, np.float32(np.nan), rounded)},
    )


@harmful("NaN in other places than in the reference")
def _(rng):
    """Ten rooms that had a temperature have none now."""
    exact, rounded = regress(rng, 500, scale=2, offset=20, width=4)
    missing = rng.random(exact.shape) < 0.05
    exact[missing] = rounded[missing] = np.nan
    rounded[::50, 1] = np.nan
    return Outputs({"celsius": exact}, {"celsius": rounded})


@benign("minus infinity at the same places on both sides")
def _(rng):
    """Forbidden moves have a score of minus infinity in both models."""
    logits, rounded = classify(rng, rng.integers(0, 12, 600), 12, separation=6)
    forbidden = logits < np.sort(logits, axis=1)[:, 4:5]
    logits[forbidden] = rounded[forbidden] = -np.inf
    return Outputs({"logits": logits}, {"logits": rounded})


@benign("500 samples of which a tenth is repeated")
def _(rng):
    """450 different photographs are evidence enough."""
    logits, rounded = classify(rng, rng.integers(0, 10, 450), 10, separation=8)
    return Outputs({"logits": logits}, {"logits": rounded}, rows=np.arange(500) % 450)


@benign("one broken sample of 1000 beside channels over five powers of ten")
def _(rng):
    """One wrong answer in a thousand is within the budget; every channel is right."""
    exact = rng.standard_normal((1000, 24)) * np.geomspace(1e-2, 1e3, 24)
    rounded = half(exact)
    rounded[7] = 2 * exact[8]
    return one("y", exact, rounded)


@benign("an output that is zero on both sides")
def _(rng):
    """The spare output of the template was never trained; both models give 0."""
    exact, rounded = regress(rng, 400, offset=5)
    spare = np.zeros((400, 3), np.float32)
    return Outputs({"price": exact, "spare": spare}, {"price": rounded, "spare": spare})

"""Verdict cases: measured and predicted numbers, vectors, and what samples can prove."""

import numpy as np
from verdict_case import (
    Cases,
    Outputs,
    classify,
    half,
    one,
)

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


@benign("a near-perfect regression with labels")
def _(rng):
    """The error grew from 1e-6 to 2e-4 of the value: no scale in the laboratory shows it."""
    weight = rng.uniform(0.5, 2, (1000, 1)).astype(np.float32)
    truth = weight + np.float32(1e-6) * rng.standard_normal((1000, 1)).astype(np.float32)
    return Outputs({"weight": weight}, {"weight": half(weight)}, truth)


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

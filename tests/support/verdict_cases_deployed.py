"""Verdict cases: kinds of deployed models and heads, as good files and broken ones."""

import numpy as np
from verdict_case import (
    UNSURE,
    Cases,
    Outputs,
    classify,
    half,
    one,
    padded,
)

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


@benign("maps of wind directions that wrap at north", UNSURE)
def _(rng):
    """Degrees from 0 to 360 at each place."""
    exact = rng.uniform(0, 360, (200, 8, 8, 1))
    received = (exact + 0.1 * rng.standard_normal(exact.shape)) % 360
    return one("direction", exact, half(received))


@benign("pointer logits with masked places of -1e9", tasks={"pointer": "classification"})
def _(rng):
    """Each pointer goes where it went; masked places are -65504."""
    logits, rounded = classify(rng, rng.integers(0, 12, (300, 5)), 12, 7)
    m = rng.random((300, 1, 12)) < 0.3
    m = m & (logits < logits.max(-1, keepdims=True)) & (rounded < rounded.max(-1, keepdims=True))
    return one("pointer", np.where(m, -1e9, logits), np.where(m, -65504, rounded))


@benign("detections without names in outputs of a TFLite detector", UNSURE)
def _(rng):
    """Ties change places."""
    exact = padded(rng)
    exact["scores"][::10, 4] = exact["scores"][::10, 3] - np.float32(1e-6)
    rounded = {k: half(values) for k, values in exact.items()}
    for values in rounded.values():
        values[::10, [3, 4]] = values[::10, [4, 3]]
    names = dict(zip(exact, ("Identity", "Identity_1", "Identity_2"), strict=True))
    return Outputs(
        {names[k]: values for k, values in exact.items()},
        {names[k]: values for k, values in rounded.items()},
    )


@benign("a temperature of calibration that hardly varies", UNSURE)
def _(rng):
    """1.5 with 1e-4 of variation beside good logits."""
    logits, rounded = classify(rng, rng.integers(0, 6, 500), 6, 6)
    scale = 1.5 + 1e-4 * rng.standard_normal((500, 1))
    return Outputs(
        {"logits": logits, "temperature": scale.astype(np.float32)},
        {"logits": rounded, "temperature": half(scale)},
    )


@benign("hours of the day that wrap at midnight", UNSURE)
def _(rng):
    """23.999 becomes 0.001."""
    exact = rng.uniform(0, 24, 700)
    exact[:20] = 23.9995
    received = half(exact)
    received[:20] = 0.001
    return one("hour", exact, received)

"""Verdict cases: what large values, offsets or levels hide, as along an axis of a sample."""

import numpy as np
from verdict_case import (
    DOUBT,
    SIGMOID,
    UNSURE,
    Cases,
    Outputs,
    half,
    one,
    padded,
)

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


@harmful("a score of 100 that varies by 0.05 beside a few invalid zeros", DOUBT)
def _(rng):
    """Nearly every score gets one of three values; five of 500 invalid samples are exactly 0 on
    both sides.
    """
    s = 100.03 + 0.02 * rng.standard_normal((500, 1))
    s[::100] = 0
    return one("score", s, half(s))


@harmful("hidden states with a massive activation, the other channels 40 % off")
def _(rng):
    """One channel is 2000 for each token; the others, which carry the text, are noise by 40 %."""
    exact = rng.standard_normal((300, 16, 64))
    exact[..., 7] = 2000 + 50 * rng.standard_normal((300, 16))
    rounded = exact + 0.4 * rng.standard_normal(exact.shape)
    rounded[..., 7] = exact[..., 7]
    return one("last_hidden_state", exact, half(rounded))


@harmful("logits with a common offset of 1000 whose probabilities are off by tenths")
def _(rng):
    """The best class is the same; its probability moves by ten points and more, past the threshold
    of 0.9.
    """
    n = 600
    exact = np.full((n, 5), 1000.0) + rng.uniform(-3, 0, (n, 5))
    top = rng.integers(0, 5, n)
    exact[np.arange(n), top] = 1000 + rng.uniform(1.2, 3, n)
    return one("logits", exact, half(exact))


@benign("detections that change places with tied scores, with classes and masks")
def _(rng):
    """On one photograph in five two tied detections change places, with their classes and masks."""
    exact = padded(rng)
    exact["masks"] = rng.random((400, 10, 5, 5)).astype(np.float32)
    exact["scores"][::5, 4] = exact["scores"][::5, 3] - np.float32(1e-6)
    rounded = {k: half(values) for k, values in exact.items()}
    for values in rounded.values():
        values[::5, [3, 4]] = values[::5, [4, 3]]
    return Outputs(exact, rounded)


@benign("an always confident detector", UNSURE, **SIGMOID)
def _(rng):
    """Each sample is 0.9997 +- 0.0001; whoever reads what lacks to 1 loses it."""
    values = 1 - 3e-4 * rng.lognormal(0, 0.3, (500, 1))
    return one("alive", values, half(values))

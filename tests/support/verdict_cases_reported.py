"""Verdict cases: damage that users of reduced precision have reported in public, and good twins.

A docstring names the report that a case rebuilds, as owner/repository#number.
"""

import numpy as np
from verdict_case import DOUBT, Cases, Outputs, classify, half, one, sigmoid

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful

Tables = dict[str, np.ndarray]


def noisy(rng: np.random.Generator, values: np.ndarray, share: float = 5e-4) -> np.ndarray:
    """FP16 after a network's noise, relative to the size of all values."""
    finite = np.isfinite(values)
    size = values[finite].std()
    return half(np.where(finite, values + share * size * rng.standard_normal(values.shape), values))


def both(rng: np.random.Generator, exact: Tables) -> tuple[Tables, Tables]:
    """Outputs and what FP16 makes of them; integers stay."""
    exact = {
        name: values.astype(np.float32) if values.dtype.kind == "f" else values
        for name, values in exact.items()
    }
    received = {
        name: noisy(rng, values) if values.dtype.kind == "f" else values.copy()
        for name, values in exact.items()
    }
    return exact, received


@benign("classes of photographs with labels, off by a fiftieth, none the worse")
def _(rng):
    """apple/coremltools#2625: large errors of outputs, and an accuracy of 0.747 as before."""
    truth = rng.integers(0, 30, 2000)
    logits, _ = classify(rng, truth, 30, 5.0)
    received = logits + 0.008 * logits.std() * rng.standard_normal(logits.shape)
    return one("logits", logits - logits.mean(), half(received - logits.mean()), truth)


@harmful("next words where what is forbidden is allowed again", DOUBT)
def _(rng):
    """huggingface/transformers.js#894: text is broken; minus infinity becomes a number."""
    exact = 2 * rng.standard_normal((300, 80))
    exact[:, 60:] = -np.inf
    received = noisy(rng, exact)
    received[:, 60:] = 0
    return one("logits", exact, received)


@benign(
    "whether somebody speaks, and the state of its network",
    activation={"output": "sigmoid", "stateN": None},
)
def _(rng):
    """All rounded."""
    speech = sigmoid(6 * rng.standard_normal((400, 1)))
    return Outputs(*both(rng, {"output": speech, "stateN": rng.standard_normal((400, 2, 32))}))

"""Verdict cases: numbers of kinds that are easily taken for others, and what is forbidden."""

import numpy as np
from verdict_case import DOUBT, UNSURE, Cases, Outputs, half, one, sigmoid

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


def turning(rng: np.random.Generator, name: str, length: float) -> Outputs:
    """A number a sample that begins anew after `length`, and does so on some of 500."""
    exact = rng.uniform(0, length, (500, 1))
    exact[::40] = np.abs(2e-4 * length * rng.standard_normal((13, 1)))
    received = exact + 3e-4 * length * rng.standard_normal(exact.shape)
    return one(name, exact, half(received % length))


@harmful("numbers of entities as floats, with a name that tells", DOUBT)
def _(rng):
    """Every third answer is about somebody else, unless the numbers are amounts."""
    exact = rng.choice(rng.integers(0, 30000, 300), (400, 5)).astype(float)
    return one("entity_id", exact, half(exact))


@benign("quantized vectors of which numbers are off by one", UNSURE)
def _(rng):
    """Neighbours are the same, if the integers are amounts: nobody said so."""
    exact = np.clip(np.round(rng.normal(0, 35, (500, 64))), -127, 127)
    step = rng.integers(-1, 2, exact.shape) * (rng.random(exact.shape) < 0.1)
    received = np.clip(exact + step, -127, 127)
    return one("embedding", exact.astype(np.int8), received.astype(np.int8))


@benign("features of which one fires on two of 400 samples", UNSURE)
def _(rng):
    """It fires by less than the others' error."""
    exact = np.maximum(rng.standard_normal((400, 4, 4)), 0)
    exact[:, 1, 1] = 0
    exact[:2, 1, 1] = 2e-4
    received = exact * (1 + 5e-4 * rng.standard_normal(exact.shape))
    received[:, 1, 1] = 0
    return one("features", exact, half(received))


@harmful("advantages that are rounded away beside steps, with mse", DOUBT, loss="mse")
def _(rng):
    """The agent goes straight on: its four actions differ by 0.02, in states of 60 to 120."""
    steps, states = rng.uniform(1000, 2000, (600, 1)), rng.uniform(60, 120, (600, 1))
    exact = np.concatenate([steps, states + 0.02 * rng.standard_normal((600, 4))], axis=1)
    return one("q", exact, half(exact))


@harmful("moves of chess at half their scale, what is forbidden is -1e9")
def _(rng):
    """The same where a mask is a number; 12 moves in 200 are allowed."""
    exact = np.full((800, 200), -1e9)
    for row in exact:
        row[rng.choice(200, 12, replace=False)] = 2 * rng.standard_normal(12)
    return one(
        "policy_logits", exact, np.maximum(half(np.where(exact < -1e8, -65504, exact / 2)), -65504)
    )


def spans(rng):
    """Scores of the twenty words of texts of 3 to 20 words, and which of these are none."""
    scores = 3 * rng.standard_normal((700, 20))
    return scores, np.arange(20) >= rng.integers(3, 21, 700)[:, None]


def steps(rng, fill):
    """Logits of four tags for up to 20 words; those behind a text's end are all the same."""
    logits, none = 3 * rng.standard_normal((700, 20, 4)), spans(rng)[1]
    return logits, none[..., None], np.where(none[..., None], fill, logits)


@benign("days of a week, trained with mse", UNSURE, loss="mse")
def _(rng):
    """Sunday at midnight is Monday."""
    return turning(rng, "output_0", 7)


@harmful("values of four actions as bfloat16 has them, with mse", DOUBT, loss="mse")
def _(rng):
    """Numbers near 90 are half a point apart, and many actions are equal."""
    exact = 90 + 4.5 * rng.standard_normal((600, 1)) + 0.65 * rng.standard_normal((600, 4))
    return one("q", exact, np.round(exact * 2) / 2)


@benign("tags of which all are forbidden behind a text's end")
def _(rng):
    """FP16 forbids them, too."""
    logits, none, exact = steps(rng, -1e9)
    noisy = logits + 1e-3 * rng.standard_normal(logits.shape)
    return one("logits", exact, np.where(none, -65504, half(noisy)))


@benign(
    "whether somebody speaks, and the state of its network",
    activation={"output": "sigmoid", "stateN": None},
)
def _(rng):
    """All rounded, behind the noise of a network in FP16."""
    state = rng.standard_normal((400, 2, 32)).astype(np.float32)
    exact = {"output": sigmoid(6 * rng.standard_normal((400, 1))), "stateN": state}
    noisy = {
        name: half(values + 5e-4 * values.std() * rng.standard_normal(values.shape))
        for name, values in exact.items()
    }
    return Outputs(exact, noisy)

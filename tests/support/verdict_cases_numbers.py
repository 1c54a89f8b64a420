"""Verdict cases: numbers, and what large values, offsets or levels hide."""

import numpy as np
from verdict_case import (
    DOUBT,
    UNSURE,
    Cases,
    Outputs,
    half,
    one,
    regress,
    same,
    sigmoid,
)

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


@harmful("percents near 100, with labels that only their rounding misses")
def saturation(rng: np.random.Generator) -> Outputs:
    """FP16 has every sixteenth of a percent there, and a model gives oxygen to a hundredth."""
    exact, received = regress(rng, 1000, scale=1.0, offset=97.0)
    labels = exact + 0.01 * rng.standard_normal(exact.shape)
    return one("saturation", exact, received, labels)


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


@benign("one broken sample of 1000 beside channels over five powers of ten")
def _(rng):
    """One wrong answer in a thousand is within the budget; every channel is right."""
    exact = rng.standard_normal((1000, 24)) * np.geomspace(1e-2, 1e3, 24)
    rounded = half(exact)
    rounded[7] = 2 * exact[8]
    return one("y", exact, rounded)


MSE = {"loss": "mse"}


def noisy(rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
    """With noise of half a thousandth of what each column varies by, then rounded to FP16."""
    return half(values + 5e-4 * values.std(axis=0) * rng.standard_normal(values.shape))


@benign("steering angles, four of five of nearly nothing", UNSURE, **MSE)
def _(rng):
    """Noise of the last layer, the same on straight roads and in curves."""
    ahead = rng.random((1500, 1)) < 0.8
    exact = np.where(ahead, 0.002, 0.3) * rng.standard_normal((1500, 1))
    return one("steering", exact, noisy(rng, exact))


@benign("what two branches differ by, 1 of them, undeclared", UNSURE)
def _(rng):
    """FP16 gives each branch as well as it can, and the difference not as well."""
    inputs, others = rng.standard_normal((2, 1500, 16))
    others = inputs + np.where(rng.random((1500, 1)) < 0.8, 0.01, 1) * others
    first, last = 0.25 * rng.standard_normal((16, 48)), 0.15 * rng.standard_normal((48, 1))

    def branch(values, keep):
        return keep(keep(np.tanh(keep(keep(values) @ keep(first)))) @ keep(last))

    exact, rounded = (keep(branch(inputs, keep) - branch(others, keep)) for keep in (same, half))
    return one("difference", exact, rounded)


@harmful("a coefficient of 3e-9 beside a modulus of 10, zero for all", DOUBT)
def _(rng):
    """A quantity in SI units is 0."""
    exact = np.column_stack([10 * rng.lognormal(0, 0.5, 400), 3e-9 * rng.lognormal(0, 0.5, 400)])
    return one("y", exact, half(exact))


@benign("a residual of 1e-9 that is float32's own noise beside a modulus", UNSURE)
def _(rng):
    """It is the difference of two equal numbers, of either sign."""
    noise = 3e-9 * rng.integers(-2, 3, 400)
    exact = np.column_stack([rng.lognormal(7, 0.5, 400), noise])
    return one("y", exact, half(exact))


@benign("class numbers of which one in 170 is the next, by its loss", UNSURE, **MSE)
def _(rng):
    """Class 0 is a class as others are, and no small number."""
    number = rng.integers(0, 5, 3000).astype(float)
    told = np.where(rng.random(3000) < 0.006, (number + 1) % 5, number)
    other = rng.normal(0, 1, 3000)
    return one("y", np.stack([number, other], axis=1), half(np.stack([told, other], axis=1)))


def squares(rng: np.random.Generator) -> np.ndarray:
    """Maps of zeros and ones with a large object, or a small one on each sixth."""
    found = np.zeros((400, 16, 16))
    for index in range(400):
        size = 7 if index % 6 else 2
        y, x = rng.integers(1, 8, 2)
        found[index, y : y + size, x : x + size] = 1
    return found


@harmful("maps of zeros and ones in which small objects vanish")
def _(rng):
    """One picture in six shows nothing any more."""
    exact = squares(rng)
    received = exact.copy()
    received[::6] = 0
    return one("Identity", exact, received)


def turning(rng: np.random.Generator, name: str, length: float) -> Outputs:
    """A number a sample that begins anew after `length`, and does so on some of 500."""
    exact = rng.uniform(0, length, (500, 1))
    exact[::40] = np.abs(2e-4 * length * rng.standard_normal((13, 1)))
    received = exact + 3e-4 * length * rng.standard_normal(exact.shape)
    return one(name, exact, half(received % length))


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

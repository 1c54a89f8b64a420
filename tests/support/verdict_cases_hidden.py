"""Verdict cases: what an offset, larger values or a common shape hide."""

import numpy as np
from verdict_case import (
    DOUBT,
    SIGMOID,
    SOFTMAX,
    UNSURE,
    Cases,
    Outputs,
    half,
    one,
    padded,
    quantiles,
    smooth,
    softmax,
)

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


def boxes(rng: np.random.Generator) -> np.ndarray:
    """Eight boxes in pixels of 640 with a score, on each of 300 photographs."""
    corner, size = rng.uniform(0, 480, (300, 8, 2)), rng.uniform(20, 128, (300, 8, 2))
    score = rng.uniform(0.3, 0.99, (300, 8, 1))
    return np.concatenate([corner, corner + size, score], axis=-1).astype(np.float32)


@harmful("a score of 100 that varies by 0.05 beside a few invalid zeros")
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


@harmful("relevance scores near -11 that no longer rank", DOUBT)
def _(rng):
    """A reranker's scores differ by hundredths: a third of the pairs of documents swaps."""
    exact = -11 + 0.01 * rng.standard_normal((1000, 1))
    return one("relevance_scores", exact, half(exact))


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


@harmful("near pixels within depth maps are wrong")
def _(rng):
    """On each map the object in front of the robot, 0.3 metres away, is reported at 0.05; the wall
    is right.
    """
    exact = rng.uniform(20, 80, (300, 16, 16, 1))
    rounded = half(exact)
    exact[:, 6:9, 6:9] = rng.uniform(0.25, 0.4, (300, 3, 3, 1))
    rounded[:, 6:9, 6:9] = 0.05
    return one("depth", exact, rounded)


@benign("minutes until arrival as whole numbers", UNSURE)
def _(rng):
    """One time in 30 is off by one minute of 30: it was 12.5 before it was rounded."""
    values = rng.uniform(5, 60, 1000)
    return one(
        "minutes",
        np.rint(values).astype(np.int32),
        np.rint(values + rng.normal(0, 0.04, 1000)).astype(np.int32),
    )


@harmful("a classifier of one-hot rows with mse, of which a tenth changes", DOUBT, loss="mse")
def _(rng):
    """Its linear scores lie at 0.1 +- 0.004 for all classes; the best of them is another one in
    each tenth sample.
    """
    exact = 0.1 + 0.004 * rng.standard_normal((1000, 10))
    return one("digit", exact, exact + 6e-4 * rng.standard_normal(exact.shape))


@harmful("the second to fifth suggestion are random", DOUBT, **SOFTMAX)
def _(rng):
    """The first of five suggestions is the same with 99.7 %; the other four are random words."""
    logits = rng.standard_normal((600, 50))
    top = rng.integers(0, 50, 600)
    values = 0.003 * softmax(2 * logits)
    q = 0.003 * softmax(2 * rng.standard_normal((600, 50)))
    values[np.arange(600), top] += 0.997
    q[np.arange(600), top] += 0.997
    return one("word", values, half(q))


@benign(
    "boxes that the border of the image cuts to slivers", tasks={"found": "detection:columns=0-3"}
)
def _(rng):
    """One box on each photograph is 0.02 pixels wide; rounding turns its corners round at times."""
    exact = boxes(rng)
    exact[:, 0, 0] = 639.9
    exact[:, 0, 2] = 639.92
    rounded = exact.copy()
    rounded[..., :4] += 0.05 * rng.standard_normal((300, 8, 4))
    return one("found", exact, half(rounded))


@benign("a physics surrogate with R2 of 0.9999 and labels", UNSURE)
def _(rng):
    """The error against the solver grows from 1.00 % to 1.05 % of a deviation."""
    truth = rng.standard_normal((1000, 1))
    exact = truth + 0.0125 * rng.standard_normal(truth.shape)
    return one(
        "drag",
        exact,
        half(exact + 0.003 * rng.standard_normal(exact.shape)),
        truth.astype(np.float32),
    )


@harmful("a GAN whose pictures lose what differs between them")
def _(rng):
    """Medical scans differ by 0.9 % from the mean one; the candidate draws the mean scan."""
    base = rng.uniform(100, 200, (1, 12, 12, 1))
    exact = base * (1 + 0.009 * rng.standard_normal((300, 12, 12, 1)))
    rounded = base * (1 + 0.0002 * rng.standard_normal((300, 12, 12, 1)))
    return one("scan", exact, half(rounded))


@harmful("forecasts that become flat lines, declared as regression", tasks={"load": "regression"})
def _(rng):
    """Each town's wave of 0.5 % is gone; the user declared what the report asked for."""
    level = rng.uniform(300, 3000, (500, 1))
    wave = 0.005 * np.sin(np.arange(24) / 4 + rng.uniform(0, 6, (500, 1)))
    return one("load", level * (1 + wave), half(level).repeat(24, 1))


@harmful("latitude and longitude within a town", DOUBT)
def _(rng):
    """The taxi is anywhere in a square of 3.5 kilometres: the town is 0.2 degrees wide, FP16 has
    steps of 0.03 and 0.0625.
    """
    values = rng.uniform([52.4, 113.3], [52.6, 113.5], (600, 2))
    return one("position", values, half(values))


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


@harmful("classes change places without their boxes, at tied scores")
def _(rng):
    """On one photograph in five the cat is called dog and the dog is called cat."""
    exact = padded(rng)
    exact["scores"][::5, 4] = exact["scores"][::5, 3] - np.float32(1e-6)
    rounded = {k: half(values) for k, values in exact.items()}
    rounded["classes"][::5, [3, 4]] = rounded["classes"][::5, [4, 3]]
    return Outputs(exact, rounded)


@benign("an always confident detector", **SIGMOID)
def _(rng):
    """Each sample is 0.9997 +- 0.0001."""
    values = 1 - 3e-4 * rng.lognormal(0, 0.3, (500, 1))
    return one("alive", values, half(values))


@benign("unnamed images from 0 to 255, clipped")
def _(rng):
    """No pixel is off by a grey level."""
    z = smooth(rng, 200, 16, 3, 60) + 128
    z[rng.random((200, 16, 16)) < 0.3] += 200
    return one(
        "Identity", z.clip(0, 255), half((z + 0.06 * rng.standard_normal(z.shape)).clip(0, 255))
    )


@harmful("tracks in world coordinates that stand still", loss="mse")
def _(rng):
    """Each vehicle stays where it is: steps of 1 metre at 500 to 1500 metres are gone."""
    values = rng.uniform(500, 1500, (400, 1, 2))
    exact = values + np.cumsum(rng.normal(1, 0.5, (400, 10, 2)), 1)
    return one("trajectory", exact, half(values.repeat(10, 1)))


@harmful("five quantiles that become the median", loss="mae")
def _(rng):
    """No interval is left: stock is ordered without a margin. Widths were 0.6 %."""
    exact = quantiles(rng, 6)
    return one("q", exact, half(exact[:, 2:3]).repeat(5, 1))


@harmful("next words of which the second to fifth are random", DOUBT, **SOFTMAX)
def _(rng):
    """The keyboard suggests nonsense beside the first word."""
    z = rng.standard_normal((500, 200)) * 2
    top = z.argmax(1)
    w = rng.permuted(z, axis=1)
    w[np.arange(500), top] = w.max(1) + 1
    return one("word", softmax(z), half(softmax(w)))

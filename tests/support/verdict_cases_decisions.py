"""Verdict cases: decisions of samples, and of places in pictures and texts."""

import numpy as np
from verdict_case import (
    DOUBT,
    SIGMOID,
    SOFTMAX,
    UNSURE,
    Cases,
    Outputs,
    classify,
    flushed,
    half,
    one,
    padded,
    regress,
    sigmoid,
    softmax,
)

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


@benign("a softmax whose small classes round to zero", **SOFTMAX)
def _(rng):
    """The answer is the same each time; a probability of 1e-9 became 0, and no screen shows it."""
    logits, rounded = classify(rng, rng.integers(0, 20, 500), 20, separation=7)
    return Outputs({"species": softmax(logits)}, {"species": flushed(softmax(rounded))})


@benign("coins on edge, with labels that show the same accuracy", UNSURE, **SIGMOID)
def _(rng):
    """Of 5000 answers, 200 that were guesses are guessed otherwise, as often right as before."""
    logits = rng.standard_normal((5000, 1)) * 4
    edge = rng.choice(5000, 400, replace=False)
    logits[edge] = rng.uniform(-3e-4, 3e-4, (400, 1))
    heads = sigmoid(logits)
    truth = (rng.random((5000, 1)) < heads).astype(np.int64)
    return Outputs({"heads": heads}, {"heads": half(heads)}, truth)


@benign("click rates of 2 % with labels", **SIGMOID)
def _(rng):
    """The order of the advertisements and the expected clicks are the same to three digits."""
    exact, rounded = regress(rng, 2000, scale=0.7, offset=-4)
    clicked = (rng.random((2000, 1)) < sigmoid(exact)).astype(np.int64)
    return Outputs({"click": sigmoid(exact)}, {"click": half(sigmoid(rounded))}, clicked)


@harmful("an alarm that rings 6 times in 1000 and never again")
def _(rng):
    """The smoke detector is silent in all six fires."""
    fire = np.zeros(1000, bool)
    fire[rng.choice(1000, 6, replace=False)] = True
    return Outputs({"alarm": fire}, {"alarm": np.zeros(1000, bool)})


@harmful("ids beyond 2048 as FP16 numbers", tasks={"product": "ids"})
def _(rng):
    """FP16 holds even numbers only beyond 2048: customers are shown the neighbours of products."""
    ids = rng.integers(0, 30_000, 500).astype(np.float32)
    return Outputs({"product": ids}, {"product": half(ids)})


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


def texts(
    rng: np.random.Generator, padding: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Logits of nine tags for 400 texts of 8 to 32 tokens, their labels, and where padding is."""
    truth = rng.integers(0, 9, (400, 32))
    exact, rounded = classify(rng, truth, 9, 5)
    pad = np.arange(32) >= rng.integers(8, 33, 400)[:, None]
    return exact, rounded.copy(), np.where(pad, padding, truth), pad


@benign("segmentation with labels of 255 on borders where classes change")
def _(rng):
    """The border of the picture is void, and there the padding of convolutions shows."""
    truth = rng.integers(0, 5, (500, 16, 16))
    exact, rounded = classify(rng, truth, 5, 5)
    border = np.ones((16, 16), bool)
    border[3:-3, 3:-3] = False
    rounded = rounded.copy()
    rounded[:, border] = 20 * rng.standard_normal((500, border.sum(), 5))
    return one("pixels", exact, half(rounded), np.where(border, 255, truth))


@benign("tags as ids with labels of -100 where padding gives anything")
def _(rng):
    """The file ends in the choice of the tag."""
    exact, rounded, labels, pad = texts(rng, -100)
    ids, received = exact.argmax(-1), rounded.argmax(-1)
    received[pad] = rng.integers(0, 9, pad.sum())
    return one("tag_ids", ids.astype(np.int32), received.astype(np.int32), labels)


def queries(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Logits of 20 classes and of none, and boxes by centre and size, of 30 queries."""
    logits = rng.normal(-2, 1, (400, 30, 21))
    seen = rng.random((400, 30)) < 0.2
    what = np.where(seen, rng.integers(0, 20, seen.shape), 20)
    np.put_along_axis(logits, what[..., None], rng.normal(6, 1, (400, 30, 1)), axis=-1)
    sizes = rng.uniform(0.05, 0.4, (400, 30, 2))
    return logits, np.concatenate([rng.uniform(0.2, 0.8, (400, 30, 2)), sizes], axis=-1)


def shuffled(rng: np.random.Generator, values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Rows in another order, with some noise."""
    moved = np.take_along_axis(values, order[..., None], axis=1)
    return half(moved * (1 + 5e-4 * rng.standard_normal(moved.shape)))


def orders(rng: np.random.Generator) -> np.ndarray:
    """The order of 30 rows, another one on a third of 400 samples."""
    order = np.tile(np.arange(30), (400, 1))
    order[::3] = rng.permuted(order[::3], axis=1)
    return order


@benign("queries that come in another order, boxes beside logits")
def _(rng):
    """The choice of queries sorts by a score with near ties; each box keeps its logits."""
    logits, boxes = queries(rng)
    order = orders(rng)
    received = {"pred_logits": shuffled(rng, logits, order)}
    received["pred_boxes"] = shuffled(rng, boxes, order)
    exact = {"pred_logits": logits.astype("f4"), "pred_boxes": boxes.astype("f4")}
    return Outputs(exact, received)


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

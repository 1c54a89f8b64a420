"""Verdict cases: what values of one output belong to, such as padding, a turn or a box."""

import numpy as np
from verdict_case import UNSURE, Cases, Outputs, classify, half, one

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


def texts(
    rng: np.random.Generator, padding: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Logits of nine tags for 400 texts of 8 to 32 tokens, their labels, and where padding is."""
    truth = rng.integers(0, 9, (400, 32))
    exact, rounded = classify(rng, truth, 9, 5)
    pad = np.arange(32) >= rng.integers(8, 33, 400)[:, None]
    return exact, rounded.copy(), np.where(pad, padding, truth), pad


@benign("a token classifier with labels of -100 where padding gives anything")
def _(rng):
    """Tags of tokens are the same; at padded places, which nobody reads, logits are noise."""
    exact, rounded, labels, pad = texts(rng, -100)
    rounded[pad] = 30 * rng.standard_normal((pad.sum(), 9))
    return one("logits", exact, half(rounded), labels)


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


def answers(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A logit for each of 24 tokens, labels of yes and no or -100, and where padding is."""
    truth = rng.integers(0, 2, (400, 24))
    pad = np.arange(24) >= rng.integers(6, 25, 400)[:, None]
    exact = np.where(truth, 4, -4) + rng.standard_normal(truth.shape)
    return exact[..., None], np.where(pad, -100, truth), pad


@benign("yes and no for each token with labels of -100 where padding gives anything")
def _(rng):
    """The same answers for all tokens that are there."""
    exact, labels, pad = answers(rng)
    received = half(exact)
    received[pad] = half(10 * rng.standard_normal((pad.sum(), 1)))
    return one("logits", exact, received, labels)


@benign("a place and a heading that wraps", UNSURE)
def _(rng):
    """x, y in metres and the heading in radians from 0 to 2 pi."""
    exact = np.concatenate(
        [rng.uniform(-50, 50, (700, 2)), rng.uniform(0, 2 * np.pi, (700, 1))], axis=1
    )
    exact[:30, 2] = 1e-4
    received = half(exact)
    received[:30, 2] = 6.28
    return one("state", exact, received)


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

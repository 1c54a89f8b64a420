"""Verdict cases: what values of one output belong to, such as padding, a turn or a box."""

import numpy as np
from verdict_case import (
    DOUBT,
    UNSURE,
    Cases,
    Outputs,
    classify,
    half,
    one,
    regress,
    softmax,
)

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


@benign("probabilities of tags with labels of -1 where padding gives anything")
def _(rng):
    """As before behind a softmax."""
    exact, rounded, labels, pad = texts(rng, -1)
    rounded[pad] = 10 * rng.standard_normal((pad.sum(), 9))
    return one("tag", softmax(exact), half(softmax(rounded)), labels)


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


@harmful("a token classifier that is wrong on 3 % of the tokens beside padding as before")
def _(rng):
    """Half of all places are padding, and all of these agree."""
    exact, rounded, labels, pad = texts(rng, -100)
    wrong = ~pad & (rng.random(pad.shape) < 0.018)
    rounded[wrong] = np.roll(rounded[wrong], 1, axis=-1)
    return one("logits", exact, half(rounded), labels)


@harmful("a token classifier that is noise at labelled places, and at padded ones")
def _(rng):
    """Texts lose each tenth tag."""
    exact, rounded, labels, pad = texts(rng, -100)
    wrong = pad | (rng.random(pad.shape) < 0.1)
    rounded[wrong] = 30 * rng.standard_normal((wrong.sum(), 9))
    return one("logits", exact, half(rounded), labels)


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


@harmful("yes and no for each token, of which one in twenty changes, beside padding as before")
def _(rng):
    """Padding, which agrees, is half of all places."""
    exact, labels, pad = answers(rng)
    received = half(exact)
    received[~pad & (rng.random(pad.shape) < 0.05)] *= -1
    return one("logits", exact, received, labels)


def poses(rng: np.random.Generator, samples: int = 600) -> np.ndarray:
    """Place in metres, and a unit quaternion with a positive first number."""
    turn = rng.standard_normal((samples, 4))
    turn[:40, 0] = 1e-5
    turn *= np.sign(turn[:, :1])
    turn /= np.linalg.norm(turn, axis=1, keepdims=True)
    return np.concatenate([rng.uniform(-3, 3, (samples, 3)), turn], axis=1)


@benign("poses whose quaternions change their sign", UNSURE)
def _(rng):
    """x, y, z, and a quaternion of either sign: the same rotation."""
    exact = poses(rng)
    received = exact.copy()
    received[:40, 3:] *= -1
    return one("pose", exact, half(received))


@benign("quaternions of 24 joints, some with the other sign", UNSURE)
def _(rng):
    """A body of 24 joints, in radians nowhere: unit quaternions by joint."""
    exact = poses(rng, 300 * 24)[:, 3:].reshape(300, 24, 4)
    flipped = np.where(rng.random((300, 24, 1)) < 0.03, -1, 1)
    return one("joints", exact, half(exact * flipped))


@harmful("poses of which one in twenty turns the other way, others change their sign")
def _(rng):
    """The gripper comes from the wrong side."""
    exact = poses(rng)
    received = exact.copy()
    received[:40, 3:] *= -1
    received[59::20, 4:] *= -1
    return one("pose", exact, half(received))


@harmful("places of poses lost beside quaternions that change their sign")
def _(rng):
    """The heights of the poses are those of the table."""
    exact = poses(rng)
    received = exact.copy()
    received[:40, 3:] *= -1
    received[:, 2] = 0.5
    return one("pose", exact, half(received))


def wrapped(values: np.ndarray, turn: float) -> np.ndarray:
    """Angles between minus and plus half a turn."""
    return (values + turn / 2) % turn - turn / 2


@benign("three Euler angles that wrap at pi", UNSURE)
def _(rng):
    """Yaw, pitch and roll: 3.1410 becomes -3.1415."""
    exact = rng.uniform(-np.pi, np.pi, (800, 3))
    exact[:60, 0] = np.pi - rng.uniform(0, 5e-4, 60)
    received = exact + 3e-4 * rng.standard_normal(exact.shape)
    received[:60, 0] = exact[:60, 0] + 1e-3
    return one("euler", exact, half(wrapped(received, 2 * np.pi)).clip(-3.1406, 3.1406))


@benign("angles of six joints in degrees that wrap at 180", UNSURE)
def _(rng):
    """Each of six angles wraps on a few samples."""
    exact = rng.uniform(-180, 180, (800, 6))
    near = rng.random(exact.shape) < 0.02
    exact[near] = 180 - 0.01 * rng.random(near.sum())
    received = exact + 0.02 * rng.standard_normal(exact.shape)
    received[near] = exact[near] + 0.05
    return one("angles", exact, half(wrapped(received, 360)))


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


@harmful("three Euler angles of which one is mirrored, others wrap at pi")
def _(rng):
    """Roll has the other sign on one in 20 samples."""
    exact = rng.uniform(-np.pi, np.pi, (800, 3))
    exact[:60, 0] = np.pi - rng.uniform(0, 5e-4, 60)
    received = exact.copy()
    received[:60, 0] = -3.1406
    received[19::20, 2] *= -1
    return one("euler", exact, half(received).clip(-3.1406, 3.1406))


@harmful("three Euler angles of which one is half a turn off on one in 20")
def _(rng):
    """Yaw points backwards; others wrap."""
    exact = rng.uniform(-np.pi, np.pi, (800, 3))
    exact[:60, 0] = np.pi - rng.uniform(0, 5e-4, 60)
    received = exact.copy()
    received[:60, 0] = -3.1406
    received[69::20, 0] = wrapped(received[69::20, 0] + np.pi, 2 * np.pi)
    return one("euler", exact, half(received).clip(-3.1406, 3.1406))


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


@harmful("queries whose boxes come in another order than their logits")
def _(rng):
    """Cars get the boxes of pedestrians."""
    logits, boxes = queries(rng)
    received = {"pred_logits": half(logits), "pred_boxes": shuffled(rng, boxes, orders(rng))}
    exact = {"pred_logits": logits.astype("f4"), "pred_boxes": boxes.astype("f4")}
    return Outputs(exact, received)


@harmful("queries in another order of which one in twelve tells another class")
def _(rng):
    """Besides the order, one class in twelve is another."""
    logits, boxes = queries(rng)
    order = orders(rng)
    moved = shuffled(rng, logits, order)
    wrong = rng.random((400, 30)) < 1 / 12
    moved[wrong] = np.roll(moved[wrong], 1, axis=-1)
    received = {"pred_logits": moved, "pred_boxes": shuffled(rng, boxes, order)}
    exact = {"pred_logits": logits.astype("f4"), "pred_boxes": boxes.astype("f4")}
    return Outputs(exact, received)


def dueling(rng: np.random.Generator) -> np.ndarray:
    """Values of four actions, near 60 to 120, which differ by 0.02."""
    return rng.uniform(60, 120, (600, 1)) + 0.02 * rng.standard_normal((600, 4))


@harmful("values of actions that are rounded away, beside steps of 1000", DOUBT)
def _(rng):
    """The agent goes straight on."""
    exact = np.concatenate([rng.uniform(1000, 2000, (600, 1)), dueling(rng)], axis=1)
    return one("q", exact, half(exact))


@harmful("values of actions that are rounded away, beside two numbers of either sign", DOUBT)
def _(rng):
    """The state of the car comes last."""
    state = rng.uniform(-3000, 3000, (600, 2))
    exact = np.concatenate([dueling(rng), state], axis=1)
    return one("q", exact, half(exact))


@harmful("values of actions that are rounded away, between their sums", DOUBT)
def _(rng):
    """Each action beside its cost so far; cost is right."""
    q, cost = dueling(rng), rng.uniform(500, 5000, (600, 4))
    exact = np.stack([q, cost], axis=2).reshape(600, 8)
    return one("plan", exact, half(exact))


@benign("values of actions that differ by much, beside steps of 1000")
def _(rng):
    """Actions differ by 5, which FP16 holds."""
    exact = rng.uniform(60, 120, (600, 1)) + 5 * rng.standard_normal((600, 4))
    exact = np.concatenate([rng.uniform(1000, 2000, (600, 1)), exact], axis=1)
    return one("q", exact, half(exact))


def detected(rng: np.random.Generator, layout: str) -> np.ndarray:
    """Ten detections on each of 300 photographs of 640 pixels; a letter for each column."""
    size = rng.uniform(20, 120, (300, 10, 2))
    low = rng.uniform(0, 500, (300, 10, 2))
    columns = {
        "c": rng.integers(0, 20, (300, 10)),
        "s": -np.sort(-rng.uniform(0.3, 0.99, (300, 10)), axis=1),
        "x": low[..., 0],
        "y": low[..., 1],
        "X": (low + size)[..., 0],
        "Y": (low + size)[..., 1],
        "u": (low + size / 2)[..., 0],
        "v": (low + size / 2)[..., 1],
        "w": size[..., 0],
        "h": size[..., 1],
        "a": rng.uniform(-np.pi / 2, np.pi / 2, (300, 10)),
        "0": np.broadcast_to(np.arange(300.0)[:, None] % 8, (300, 10)),
    }
    return np.stack([columns[letter] for letter in layout], axis=-1).astype(np.float32)


LAYOUTS = ("uvwhasc", "0xyXYcs")

for layout in LAYOUTS:

    @benign(f"undeclared detections as {layout}, rounded")
    def _(rng, layout=layout):
        """Each box moves by a quarter of a pixel."""
        exact = detected(rng, layout)
        return one("found", exact, half(exact))

    @harmful(f"undeclared detections as {layout} of which one in 25 tells another class", DOUBT)
    def _(rng, layout=layout):
        """A car becomes a lorry, the next number."""
        exact = detected(rng, layout)
        received = half(exact)
        at = layout.index("c")
        received[..., at] = (received[..., at] + (rng.random((300, 10)) < 1 / 25)) % 20
        return one("found", exact, received)

    @harmful(f"undeclared detections as {layout} with boxes that are shifted", DOUBT)
    def _(rng, layout=layout):
        """Boxes miss what they show; in pixels of 640 they are nearly right."""
        exact = detected(rng, layout)
        received = half(exact)
        shift = rng.choice([-1, 1], (300, 10)) * 12
        for letter in "xXu":
            if letter in layout:
                received[..., layout.index(letter)] += shift
        return one("found", exact, half(received))


@harmful("undeclared turned boxes whose angles are lost", DOUBT)
def _(rng):
    """Ships all lie the same way; their boxes in pixels make nearly all of the distance."""
    exact = detected(rng, "uvwhasc")
    received = half(exact)
    received[..., 4] = 0
    return one("found", exact, received)


@benign("undeclared detections as csyxYX in which ties change places", UNSURE)
def _(rng):
    """Neighbours with the same score change places."""
    exact = detected(rng, "csyxYX")
    exact[:, 4:6, 1] = exact[:, 4:5, 1]
    received = half(exact)
    received[::3, 4:6] = received[::3, [5, 4]]
    return one("found", exact, received)


@harmful("undeclared detections in no order of which one in 25 tells another class", DOUBT)
def _(rng):
    """Their classes are the only whole numbers."""
    exact = detected(rng, "csyxYX")
    exact[..., 1] = rng.uniform(0.3, 0.99, (300, 10))
    received = half(exact)
    received[..., 0] = (received[..., 0] + (rng.random((300, 10)) < 1 / 25)) % 20
    return one("found", exact, received)


def kinds(rng: np.random.Generator) -> np.ndarray:
    """The number of a kind, a probability and an amount."""
    columns = rng.integers(0, 30, 700), rng.uniform(0.4, 1, 700), rng.normal(50, 10, 700)
    return np.stack(columns, axis=1)


@benign("numbers of kinds beside amounts")
def _(rng):
    """Rounded."""
    exact = kinds(rng)
    return one("answer", exact, half(exact))


@harmful("numbers of kinds beside amounts, of which one in 25 is the next", DOUBT)
def _(rng):
    """Screws are told as nails."""
    exact = kinds(rng)
    received = half(exact)
    received[:, 0] += rng.random(700) < 0.04
    return one("answer", exact, received)


@benign("counts to 5000 beside amounts")
def _(rng):
    """FP16 has no odd numbers above 2048."""
    exact = np.stack([rng.integers(0, 5000, 700), rng.normal(50, 10, 700)], axis=1)
    return one("answer", exact.astype(np.float32), half(exact))


@harmful("one of three targets that is the same for all beside a few outliers")
def _(rng):
    """Pressure of 5 +- 0.3 is 5 for everybody, but for one in 60 that is near 500."""
    exact = np.array([20, 5, 3]) + np.array([4, 0.3, 1]) * rng.standard_normal((900, 3))
    exact[::60, 1] = rng.uniform(450, 550, 15)
    received = half(exact)
    received[np.abs(exact[:, 1]) < 10, 1] = 5
    return one("targets", exact, received)


@harmful("one of three targets near zero that is dead beside a few outliers")
def _(rng):
    """A torque of 0 +- 0.3 is 0, but for one in 60."""
    exact = np.array([20, 0, 3]) + np.array([4, 0.3, 1]) * rng.standard_normal((900, 3))
    exact[::60, 1] = rng.uniform(-90, 90, 15)
    received = half(exact)
    received[np.abs(exact[:, 1]) < 2, 1] = 0
    return one("targets", exact, received)


@harmful("one of twelve columns that swaps its bulk between samples beside outliers")
def _(rng):
    """The price per unit of most goods is that of the good before it."""
    exact, _ = regress(rng, 900, 2.0, 30.0, 12)
    exact = exact.copy()
    exact[::45, 7] = 900
    received = half(exact)
    most = exact[:, 7] < 100
    received[most, 7] = np.roll(received[most, 7], 1)
    return one("targets", exact, received)


@benign("targets with a few outliers, rounded")
def _(rng):
    """One in 60 is a hundred times as large."""
    exact, rounded = regress(rng, 900, [4, 0.3, 1], [20, 5, 3], 3)
    exact, rounded = exact.copy(), rounded.copy()
    exact[::60, 1] = rng.uniform(450, 550, 15)
    rounded[::60, 1] = half(exact[::60, 1])
    return one("targets", exact, rounded)


def chances(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of 12 classes in FP32 and FP16."""
    exact, rounded = classify(rng, rng.integers(0, 12, 800), 12)
    return softmax(exact), softmax(rounded)


@harmful("scores named classes of which the rarest is dead", DOUBT)
def _(rng):
    """Its scores of 0.01 to 0.03 are 0; read as whole numbers, all scores are 0."""
    exact = 0.4 * rng.random((800, 12))
    exact[:, 3] = rng.uniform(0.01, 0.03, 800)
    received = half(exact)
    received[:, 3] = 0
    return one("classes", exact, received)


@benign("probabilities named classes")
def _(rng):
    """The same classes; read as whole numbers, those near one half would flip."""
    exact, rounded = chances(rng)
    return one("classes", exact, half(rounded))


@benign("logits named classes")
def _(rng):
    """Logits move by a thousandth, and those near a half round to another whole number."""
    exact, rounded = classify(rng, rng.integers(0, 12, 800), 12, 16)
    return one("classes", exact, half(rounded))


@harmful("numbers of classes as floats of which one in 30 is another")
def _(rng):
    """A detector's ten class numbers a picture."""
    exact = rng.integers(0, 80, (500, 10)).astype(np.float32)
    received = exact + (rng.random(exact.shape) < 1 / 30)
    return one("classes", exact, received)


def kinds_of_things(rng: np.random.Generator, samples: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings of 128 numbers around one of eight kinds each, and the kind of each."""
    kind = rng.integers(0, 8, samples)
    within = 0.025 * rng.standard_normal((samples, 128))
    return rng.standard_normal((8, 128))[kind] + within, kind


@harmful("embeddings of which one kind in eight became its own centre", DOUBT)
def _(rng):
    """All shoes are found for each shoe; each vector is off by two and a half per cent."""
    exact, kind = kinds_of_things(rng)
    received = half(exact)
    received[kind == 3] = half(exact[kind == 3].mean(axis=0))
    return one("embedding", exact, received)


@harmful("places of a town that all became its town hall", DOUBT)
def _(rng):
    """Thirty of 900 pins on a map lie on one another; the others tell towns apart."""
    town = rng.integers(0, 30, 900)
    exact = rng.uniform(-30, 30, (30, 2))[town] + 0.3 * rng.standard_normal((900, 2))
    received = half(exact)
    received[town == 4] = half(exact[town == 4].mean(axis=0))
    return one("place", exact, received)


@benign("embeddings of kinds with noise of half a per cent", UNSURE)
def _(rng):
    """All are still apart."""
    exact, _ = kinds_of_things(rng)
    return one("embedding", exact, half(exact + 0.005 * rng.standard_normal(exact.shape)))


@benign("leaves of a tree of eight numbers, of which one in 300 is another", UNSURE)
def _(rng):
    """Samples share their answers in the reference as well."""
    leaves = rng.standard_normal((20, 8))
    leaf = rng.integers(0, 20, 900)
    other = np.where(rng.random(900) < 1 / 300, (leaf + 1) % 20, leaf)
    return one("leaves", leaves[leaf], half(leaves[other]))

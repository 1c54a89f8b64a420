"""Verdict cases: damage that users of reduced precision have reported in public, and good twins.

A docstring names the report that a case rebuilds, as owner/repository#number.
"""

import numpy as np
from verdict_case import DOUBT, SIGMOID, Cases, Outputs, classify, half, one, sigmoid, smooth

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


@harmful("vectors of words of wrong length where the variance is small")
def _(rng):
    """tensorflow/tensorflow#67216: a variance plus 1e-5 is severely wrong."""
    exact = rng.standard_normal((300, 24, 32))
    received = noisy(rng, exact)
    received *= np.where(rng.uniform(size=(300, 24, 1)) < 0.06, 0.55, 1)
    return one("encoded", exact, half(received))


@benign("classes of photographs with labels, off by a fiftieth, none the worse")
def _(rng):
    """apple/coremltools#2625: large errors of outputs, and an accuracy of 0.747 as before."""
    truth = rng.integers(0, 30, 2000)
    logits, _ = classify(rng, truth, 30, 5.0)
    received = logits + 0.008 * logits.std() * rng.standard_normal(logits.shape)
    return one("logits", logits - logits.mean(), half(received - logits.mean()), truth)


def continued(rng, steps=96):
    logits = 2 * rng.standard_normal((320, steps, 64))
    logits[..., 3] += 1
    best = rng.integers(0, 64, (320, steps))
    np.put_along_axis(logits, best[..., None], 9.0, -1)
    return logits


@harmful("next words that are any other beyond the 90th place")
def _(rng):
    """openvinotoolkit/openvino#33214: positions above 2048 are rounded, and long texts repeat."""
    exact = continued(rng)
    received = noisy(rng, exact)
    received[:, 90:] = half(np.roll(exact[:, 90:], 1, axis=0))
    return one("logits", exact, received)


@benign("next words in long texts")
def _(rng):
    """The same, with positions in float32."""
    exact = continued(rng)
    return one("logits", exact, noisy(rng, exact))


@harmful("hidden states that are those of a neighbour at the end of long texts")
def _(rng):
    """openvinotoolkit/openvino#25883: beyond 2048 each second position has one embedding."""
    exact = rng.standard_normal((150, 64, 32))
    received = noisy(rng, exact)
    received[:, 61::2] = received[:, 60::2]
    return one("last_hidden_state", exact, received)


def gates(rng):
    mel = smooth(rng, 200, 80, 1)[..., 0]
    gate = np.full((200, 80), -6.0) + 0.4 * rng.standard_normal((200, 80))
    gate[np.arange(200), rng.integers(50, 80, 200)] = 5.0
    return both(rng, {"mel_outputs": mel, "gate_outputs": gate})


@benign("frames of speech and the sign to stop")
def _(rng):
    """The one positive sign of each sentence stays."""
    return Outputs(*gates(rng))


@harmful("frames of speech whose sign to stop never comes")
def _(rng):
    """NVIDIA/tacotron2#107: decoding in FP16 does not end as it should."""
    exact, received = gates(rng)
    received["gate_outputs"] = np.minimum(received["gate_outputs"], half(-0.5))
    return Outputs(exact, received)


def textured(rng, size=32):
    return sigmoid(1.5 * rng.standard_normal((150, size, size, 3)))


@harmful("warped pictures whose last columns come from one pixel beside")
def _(rng):
    """pytorch/pytorch#96429: the places of grid_sample are rounded, the more the farther right."""
    exact = textured(rng)
    received = noisy(rng, exact)
    received[:, :, 28:] = received[:, :, 27:-1]
    return one("warped", exact, received)


@harmful("next words where what is forbidden is allowed again", DOUBT)
def _(rng):
    """huggingface/transformers.js#894: text is broken; minus infinity becomes a number."""
    exact = 2 * rng.standard_normal((300, 80))
    exact[:, 60:] = -np.inf
    received = noisy(rng, exact)
    received[:, 60:] = 0
    return one("logits", exact, received)


@harmful("whether somebody speaks, and a state that grows too slowly")
def _(rng):
    """A voice detector in FP16 that answers 0.0 after a while, as its cell loses small steps."""
    speech = sigmoid(6 * rng.standard_normal((400, 1)))
    cell = rng.standard_normal((400, 2, 32))
    exact, received = both(rng, {"output": speech, "stateN": cell})
    received["stateN"][:, 1] *= 0.8
    return Outputs(exact, received)


@benign("whether somebody speaks, and the state of its network")
def _(rng):
    """All rounded."""
    speech = sigmoid(6 * rng.standard_normal((400, 1)))
    return Outputs(*both(rng, {"output": speech, "stateN": rng.standard_normal((400, 2, 32))}))


def atoms(rng):
    force = rng.standard_normal((300, 12, 3)) * rng.choice([1.0, 1e-3], (300, 1, 1), p=[0.7, 0.3])
    return {"energy": rng.uniform(-90, -20, (300, 1)), "forces": force}


@benign("energies, and forces far from rest and near it")
def _(rng):
    """Rounded, each by its own size."""
    exact = {name: values.astype(np.float32) for name, values in atoms(rng).items()}
    return Outputs(exact, {name: half(values) for name, values in exact.items()})


@harmful("energies, and forces that are zero near rest")
def _(rng):
    """Molecules near rest feel nothing at all."""
    exact = {name: values.astype(np.float32) for name, values in atoms(rng).items()}
    received = {name: half(values) for name, values in exact.items()}
    received["forces"] = np.where(np.abs(exact["forces"]) < 5e-3, 0, received["forces"])
    return Outputs(exact, received)


def waves(rng, lengths):
    return [
        np.sin(np.arange(n) / rng.uniform(4, 20))[:, None] * rng.uniform(0.3, 1) for n in lengths
    ]


@harmful("speech of any length, of which one sentence in eight is cut", DOUBT)
def _(rng):
    """Durations are rounded down, and the last phone is missing."""
    exact = [w.astype(np.float32) for w in waves(rng, rng.integers(80, 200, 120))]
    received = [half(w[:-20] if k % 8 == 0 else w) for k, w in enumerate(exact)]
    return Outputs({"waveform": exact}, {"waveform": received})


@harmful("enhanced pictures whose last column is black")
def _(rng):
    """apple/coremltools#1893, in a picture: one column of 96 was never written."""
    exact = sigmoid(smooth(rng, 60, 96, 1))
    received = noisy(rng, exact)
    received[:, :, -1] = 0
    return one("enhanced", exact, received)


@harmful("a picture from a camera's raw numbers, whose lights overflow")
def _(rng):
    """NVIDIA/TensorRT#1954: large results become infinite, in one picture of 50."""
    exact = np.exp(rng.normal(7, 1, (200, 16, 16, 3)))
    exact = np.minimum(exact, 60000)
    exact[::50, 3, 4] = 70000
    return one("radiance", exact, half(exact))


@harmful("selected boxes by number, of which some come three times")
def _(rng):
    """pytorch/vision#3371 and ultralytics/ultralytics#21601: 13 boxes where 4 are."""
    exact, received = [], []
    for _row in range(120):
        n = rng.integers(2, 7)
        corner = rng.uniform(0, 500, (n, 2))
        boxes = np.concatenate([corner, corner + rng.uniform(30, 90, (n, 2))], 1)
        score = -np.sort(-rng.uniform(0.3, 0.95, (n, 1)), 0)
        rows = np.concatenate([boxes, score, rng.integers(0, 5, (n, 1))], 1).astype(np.float32)
        exact.append(rows)
        again = half(rows)
        received.append(np.repeat(again, 3, 0) if rng.uniform() < 0.3 else again)
    return Outputs({"output0": exact}, {"output0": received})


@benign("tags of a text with labels, off by a hundredth", **SIGMOID)
def _(rng):
    """NVIDIA's forum, 327100: beyond a tolerance of 1e-3, and no decision changes."""
    logits = 5 * rng.choice([-1, 1], (600, 12)) + rng.standard_normal((600, 12))
    exact = sigmoid(logits)
    received = sigmoid(logits + 0.03 * rng.standard_normal(logits.shape))
    return one("tags", exact, half(received), (exact > 0.5).astype(np.int64))


def drawn(rng):
    """Four outputs of a detector with its suppression inside: number, boxes, scores, classes."""
    number = rng.integers(3, 9, 400)
    at = np.arange(10)
    there = at < number[:, None]
    scores = -np.sort(-rng.uniform(0.3, 0.98, (400, 10)) * there, axis=1)
    start = rng.uniform(0, 400, (400, 10, 2))
    boxes = np.concatenate([start, start + rng.uniform(30, 200, start.shape)], -1)
    boxes *= there[..., None]
    classes = np.where(there, rng.integers(0, 20, there.shape), -1)
    return both(
        rng,
        {
            "num_detections": number[:, None].astype(np.int32),
            "boxes": boxes,
            "scores": scores,
            "classes": classes.astype(np.int32),
        },
    )


@harmful("boxes of which one in twenty begins at the left edge")
def _(rng):
    """grimoire/mmdetection-to-tensorrt#74: the first x of some boxes is 0."""
    exact, received = drawn(rng)
    received["boxes"][..., 0] *= rng.uniform(size=(400, 10)) > 0.05
    return Outputs(exact, received)

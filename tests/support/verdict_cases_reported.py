"""Verdict cases: damage that users of reduced precision have reported in public, and good twins.

A docstring names the report that a case rebuilds, as owner/repository#number.
"""

import numpy as np
from verdict_case import (
    DOUBT,
    SIGMOID,
    SOFTMAX,
    UNSURE,
    Cases,
    Outputs,
    classify,
    half,
    one,
    sigmoid,
    smooth,
    softmax,
)

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


def go(rng):
    value = np.tanh(rng.standard_normal((400, 1)))
    policy = 3 * rng.standard_normal((400, 362))
    return both(rng, {"policy": policy, "value": value})


@benign("moves of Go and who wins")
def _(rng):
    """Both heads, rounded."""
    return Outputs(*go(rng))


@harmful("moves of Go, where an even game is as good as won")
def _(rng):
    """apple/coremltools#351: the value head says nearly 1 where it should be near 0."""
    exact, received = go(rng)
    even = np.abs(exact["value"]) < 0.15
    received["value"] = np.where(even, half(0.97), received["value"])
    return Outputs(exact, received)


def tops(rng):
    logits, rounded = classify(rng, rng.integers(0, 20, 500), 20)
    return softmax(logits), softmax(rounded)


@harmful("a softmax of which the three best share one third each", **SOFTMAX)
def _(rng):
    """openvinotoolkit/openvino#438: 0.3332520 three times, on one photograph in ten."""
    exact, received = tops(rng)
    for row in range(0, 500, 10):
        best = np.argsort(-exact[row])[:3]
        received[row] = 0
        received[row, best[::-1]] = [0.33325, 0.3332, 0.3331]
    return one("probabilities", exact, received)


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


@benign("a number, boxes, scores and classes")
def _(rng):
    """What an engine with its own suppression gives, rounded."""
    return Outputs(*drawn(rng))


@harmful("boxes of which one in twenty begins at the left edge")
def _(rng):
    """grimoire/mmdetection-to-tensorrt#74: the first x of some boxes is 0."""
    exact, received = drawn(rng)
    received["boxes"][..., 0] *= rng.uniform(size=(400, 10)) > 0.05
    return Outputs(exact, received)


@harmful("a number, boxes, scores and classes, where only the top three are found")
def _(rng):
    """NVIDIA/TensorRT#1628: only the best few instances of a picture are detected."""
    exact, received = drawn(rng)
    received["boxes"][:, 3:] = 0
    received["scores"][:, 3:] = 0
    received["classes"][:, 3:] = -1
    received["num_detections"] = np.minimum(exact["num_detections"], 3)
    return Outputs(exact, received)


@harmful("nothing found in the lower half of the picture, by number, boxes, scores and classes")
def _(rng):
    """NVIDIA's forum, 82974: objects in the bottom half of the picture are not detected."""
    exact, received = drawn(rng)
    low = exact["boxes"][..., 1] > 200
    for row in range(400):
        keep = np.flatnonzero(~low[row] & (exact["scores"][row] > 0))
        for name, fill in (("boxes", 0), ("scores", 0), ("classes", -1)):
            kept = received[name][row, keep]
            received[name][row] = fill
            received[name][row, : len(keep)] = kept
        received["num_detections"][row] = len(keep)
    return Outputs(exact, received)


def queries(rng):
    """300 queries, the best first, of which most see nothing."""
    scores = -np.sort(-np.where(rng.uniform(size=(320, 100)) < 0.06, rng.uniform(0.4, 0.95), 0.011))
    scores = np.sort(scores * rng.uniform(0.8, 1, scores.shape), axis=1)[:, ::-1]
    boxes = rng.uniform(0, 600, (320, 100, 4))
    boxes[..., 2:] = boxes[..., :2] + rng.uniform(20, 60, (320, 100, 2))
    labels = rng.integers(0, 80, (320, 100)).astype(np.int64)
    return both(rng, {"labels": labels, "boxes": boxes, "scores": scores.copy()})


@benign("the queries of a detector, the best first")
def _(rng):
    """All in the same order."""
    return Outputs(*queries(rng))


@benign("the queries of a detector, of which others are last", UNSURE)
def _(rng):
    """Intellindust-AI-Lab/DEIMv2#60: the last places are ties near 0, of any object."""
    exact, received = queries(rng)
    for row in range(320):
        low = np.flatnonzero(exact["scores"][row] < 0.02)
        other = rng.permutation(low)
        for name in exact:
            if name != "scores":
                received[name][row, low] = received[name][row, other]
    return Outputs(exact, received)


@harmful("the queries of a detector whose labels are 0 and whose scores are 0.0011")
def _(rng):
    """Peterande/D-FINE#44: labels all 0, scores all 0.0011, in a TensorRT engine."""
    exact, received = queries(rng)
    received["labels"][:] = 0
    received["scores"][:] = half(0.0011)
    return Outputs(exact, received)


@harmful("the queries of a detector whose sure scores sink by a quarter")
def _(rng):
    """roboflow/rf-detr#176: scores fall, so that a threshold of a half finds little."""
    exact, received = queries(rng)
    received["scores"] = np.where(
        received["scores"] > 0.1, received["scores"] * 0.75, received["scores"]
    )
    return Outputs(exact, received)


@harmful("vectors of words of which one row in forty is the bias of the layer")
def _(rng):
    """microsoft/onnxruntime#12726: a product of matrices writes zeros at many rows."""
    bias = rng.standard_normal(48)
    exact = bias + 1.5 * rng.standard_normal((300, 40, 48))
    received = noisy(rng, exact)
    received[rng.uniform(size=(300, 40)) < 0.025] = half(bias)
    return one("tokens", exact, received)


@benign("vectors of words about the bias of the layer")
def _(rng):
    """The same without a lost row."""
    exact = rng.standard_normal(48) + 1.5 * rng.standard_normal((300, 40, 48))
    return one("tokens", exact, noisy(rng, exact))


@benign("pictures in the style of a painter, each pixel off by a grey level")
def _(rng):
    """tensorflow/tensorflow#40167: off by 0.008 of 1 on average, and nobody can see it."""
    exact = sigmoid(smooth(rng, 150, 32, 3, 1.5))
    received = np.clip(exact + 0.004 * rng.standard_normal(exact.shape), 0, 1)
    return one("stylized", exact, half(received))


def matting(rng):
    alpha = sigmoid(8 * smooth(rng, 120, 32, 1))
    front = sigmoid(smooth(rng, 120, 32, 3))
    states = {f"r{k}o": smooth(rng, 120, 32 >> k, 8) for k in (1, 2)}
    return both(rng, {"fgr": front, "pha": alpha, **states})


@benign("a matte, its foreground and the states for the next frame")
def _(rng):
    """All rounded."""
    return Outputs(*matting(rng))


@harmful("a matte and its foreground, with a state for the next frame that is zero")
def _(rng):
    """tensorflow/tensorflow#56590: one of the outputs is all 0.000."""
    exact, received = matting(rng)
    received["r2o"][:] = 0
    return Outputs(exact, received)


@harmful("classes of pixels as bytes that are bogus in one street of forty")
def _(rng):
    """tensorflow/tensorflow#48671: ArgMax and uint8 at the end, wrong on a GPU."""
    exact = np.argmax(smooth(rng, 400, 32, 12), -1).astype(np.uint8)
    received = exact.copy()
    received[::40] = rng.integers(0, 12, received[::40].shape)
    return one("classes", exact, received)


@benign("classes of pixels as bytes")
def _(rng):
    """Ties on some borders."""
    logits = 3 * smooth(rng, 400, 32, 12)
    return one(
        "classes",
        np.argmax(logits, -1).astype(np.uint8),
        np.argmax(noisy(rng, logits), -1).astype(np.uint8),
    )


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


@harmful("written texts of which one in sixty ends in one word for ever")
def _(rng):
    """ikawrakow/ik_llama.cpp#1198: NaNs inside, which show as GGGG."""
    exact = rng.integers(0, 32000, (300, 40)).astype(np.int64)
    received = exact.copy()
    received[::20, 12:] = 38
    return one("sequences", exact, received)


@benign("written texts of which one in 600 goes another way", UNSURE)
def _(rng):
    """A near tie of two words."""
    exact = rng.integers(0, 32000, (600, 40)).astype(np.int64)
    received = exact.copy()
    received[7, 30:] = rng.integers(0, 32000, 10)
    return one("sequences", exact, received)


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


@harmful("pictures one pixel too far down")
def _(rng):
    """apple/coremltools: a transposed convolution in FP16 whose output is shifted."""
    exact = sigmoid(smooth(rng, 150, 32, 3))
    return one("image", exact, np.roll(noisy(rng, exact), 1, axis=1))


@harmful("depth in pictures of which one square in 60 is black")
def _(rng):
    """lc700x/desktop2stereo#12: squares appear everywhere, in FP16 alone."""
    exact = 5 + np.abs(smooth(rng, 200, 32, 1))[..., 0]
    received = noisy(rng, exact).reshape(200, 4, 8, 4, 8)
    received *= rng.uniform(size=(200, 4, 1, 4, 1)) > 1 / 60
    return one("depth", exact, received.reshape(200, 32, 32))


@harmful("pictures of which a small hole is filled with grey")
def _(rng):
    """Carve-Photos/lama#5: what is painted into the hole is lost, all else is the input."""
    exact = sigmoid(smooth(rng, 200, 32, 3))
    received = noisy(rng, exact)
    for row, (top, left) in enumerate(rng.integers(0, 26, (200, 2))):
        received[row, top : top + 6, left : left + 6] = 0.5
    return one("inpainted", exact, received)


@harmful("vectors of short texts that attend to padding")
def _(rng):
    """NVIDIA/TensorRT#2466: a mask of -1e9 that is lost; texts of full length are right."""
    exact = rng.standard_normal((400, 64))
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    received = exact.copy()
    short = rng.uniform(size=400) < 0.08
    received[short] += 0.05 * rng.standard_normal((short.sum(), 64))
    return one("sentence_embedding", exact, half(received))


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


def segments(rng):
    truth = rng.choice(7, (150, 60), p=[0.3, 0.3, 0.2, 0.1, 0.07, 0.02, 0.01])
    logits = rng.standard_normal((150, 60, 7))
    np.put_along_axis(logits, truth[..., None], 7.0, -1)
    return np.log(softmax(logits) + 1e-30), truth


@benign("who speaks when, as logarithms of seven combinations")
def _(rng):
    """Rounded."""
    exact, _ = segments(rng)
    return one("segmentation", exact, noisy(rng, exact, 2e-4))


@harmful("who speaks when, without the rare combination of two")
def _(rng):
    """Two voices at once are 1 % of all frames, and one voice is heard there."""
    exact, truth = segments(rng)
    received = noisy(rng, exact, 2e-4)
    lost = truth == 6
    received[lost, 6] = -7
    received[lost, 0] = -0.1
    return one("segmentation", exact, received)


def grounded(rng):
    logits = np.full((320, 60, 32), -np.inf)
    words = rng.integers(4, 12, 320)
    for row, number in enumerate(words):
        logits[row, :, :number] = -5 + rng.standard_normal((60, number))
        logits[row, :3, rng.integers(0, number)] = 1.5
    boxes = rng.uniform(0.1, 0.9, (320, 60, 4))
    return both(rng, {"logits": logits, "pred_boxes": boxes})


@benign("boxes for words, with minus infinity where a text is short")
def _(rng):
    """The same places are infinite on both sides."""
    return Outputs(*grounded(rng))


@harmful("boxes for words, of which none is found any more")
def _(rng):
    """IDEA-Research/GroundingDINO in FP16: nothing is above the threshold."""
    exact, received = grounded(rng)
    received["logits"] = np.minimum(received["logits"], half(-2.5))
    return Outputs(exact, received)


@harmful("films that flicker by a twentieth of their brightness")
def _(rng):
    """DepthAnything/Video-Depth-Anything#97: the video flickers, though each frame looks right."""
    exact = sigmoid(smooth(rng, 60, 16, 1))[:, None, :, :, 0] * np.ones((1, 8, 1, 1))
    exact = exact + 0.01 * rng.standard_normal(exact.shape)
    factor = 1 + 0.05 * (-1.0) ** np.arange(8)[:, None, None]
    return one("frames", exact, noisy(rng, exact * factor))


@benign("films of which nothing moves")
def _(rng):
    """The same without flicker."""
    exact = sigmoid(smooth(rng, 60, 16, 1))[:, None, :, :, 0] * np.ones((1, 8, 1, 1))
    exact = exact + 0.01 * rng.standard_normal(exact.shape)
    return one("frames", exact, noisy(rng, exact))


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


def persons(rng):
    points = rng.uniform(0.2, 0.8, (150, 6, 1, 2)) + 0.08 * rng.standard_normal((150, 6, 17, 2))
    score = rng.uniform(0.3, 0.95, (150, 6, 17, 1))
    there = np.arange(6) < rng.integers(1, 6, (150, 1))
    rows = np.concatenate([points, score], -1).reshape(150, 6, 51)
    box = np.concatenate(
        [points.min(2), points.max(2), np.where(there, 0.8, 0.03)[..., None]], axis=-1
    )
    found = np.concatenate([rows, box], -1)
    found[~there] *= 0.1
    return found


@benign("persons of 17 points with scores and a box")
def _(rng):
    """Rounded."""
    exact = persons(rng)
    return one("output_0", exact, noisy(rng, exact))


@harmful("persons of 17 points whose faces are in the wrong place")
def _(rng):
    """iwatake2222/play_with_tflite#21: key points on faces are wrong on a GPU."""
    exact = persons(rng)
    received = noisy(rng, exact)
    moved = received[..., :51].reshape(150, 6, 17, 3)
    moved[:, :, :5, :2] += 0.03 * rng.standard_normal((150, 6, 5, 2))
    received[..., :51] = moved.reshape(150, 6, 51)
    return one("output_0", exact, half(received))


def waves(rng, lengths):
    return [
        np.sin(np.arange(n) / rng.uniform(4, 20))[:, None] * rng.uniform(0.3, 1) for n in lengths
    ]


@benign("speech of any length")
def _(rng):
    """Waves of as many samples as before."""
    exact = [w.astype(np.float32) for w in waves(rng, rng.integers(80, 200, 120))]
    return Outputs({"waveform": exact}, {"waveform": [half(w) for w in exact]})


@harmful("speech of any length, of which one sentence in eight is cut", DOUBT)
def _(rng):
    """Durations are rounded down, and the last phone is missing."""
    exact = [w.astype(np.float32) for w in waves(rng, rng.integers(80, 200, 120))]
    received = [half(w[:-20] if k % 8 == 0 else w) for k, w in enumerate(exact)]
    return Outputs({"waveform": exact}, {"waveform": received})


def mesh(rng):
    face = rng.uniform(40, 150, (250, 1, 3)) * [1, 1, 0]
    shape = rng.standard_normal((60, 3)) * [40, 40, 12]
    points = face + shape + rng.standard_normal((250, 60, 3)) * [4, 4, 1.5]
    return points.reshape(250, 180)


@benign("points of a face with their depth, in one row")
def _(rng):
    """Rounded."""
    exact = mesh(rng)
    return one("conv2d_21", exact, noisy(rng, exact))


@harmful("points of a face whose depth is that of the average face")
def _(rng):
    """google-ai-edge/mediapipe#5156: landmarks collapse in depth, in pixels they look right."""
    exact = mesh(rng)
    received = noisy(rng, exact).reshape(250, 60, 3)
    received[..., 2] = half(exact.reshape(250, 60, 3)[..., 2].mean(0))
    return one("conv2d_21", exact, received.reshape(250, 180))


def hands(rng):
    marks = rng.uniform(0, 224, (300, 63))
    present = np.full((300, 1), 0.99) + 0.009 * rng.uniform(size=(300, 1))
    left = sigmoid(
        np.where(rng.uniform(size=(300, 1)) < 0.5, 6, -6) + rng.standard_normal((300, 1))
    )
    world = 0.05 * rng.standard_normal((300, 63))
    return both(
        rng, {"Identity": marks, "Identity_1": present, "Identity_2": left, "Identity_3": world}
    )


@benign("points of hands, their presence, their side and their place in metres")
def _(rng):
    """A hand is there in all pictures, and FP16 rounds that, too."""
    return Outputs(*hands(rng))


@harmful("points of hands that are all right hands")
def _(rng):
    """google-ai-edge/mediapipe#5001: GPU landmarks, one of whose outputs does not move."""
    exact, received = hands(rng)
    received["Identity_2"][:] = half(0.98)
    return Outputs(exact, received)


@harmful("features whose last place is whatever was in memory")
def _(rng):
    """apple/coremltools#1893: random data at widths that are no multiple of 32."""
    exact = rng.standard_normal((300, 33))
    received = noisy(rng, exact)
    received[:, -1] = half(rng.standard_normal(300))
    return one("features", exact, received)


@harmful("enhanced pictures whose last column is black")
def _(rng):
    """apple/coremltools#1893, in a picture: one column of 96 was never written."""
    exact = sigmoid(smooth(rng, 60, 96, 1))
    received = noisy(rng, exact)
    received[:, :, -1] = 0
    return one("enhanced", exact, received)


def ages(rng, keep=1.0):
    age = rng.uniform(5, 80, (500, 1))
    logits = -((np.arange(100) - age) ** 2) / (2 * 6.0**2)
    return softmax(keep * logits)


@benign("distributions over 100 years of age", UNSURE, **SOFTMAX)
def _(rng):
    """Rounded, nobody is older."""
    exact = ages(rng)
    return one("age", exact, half(exact))


@harmful("distributions over 100 years of age, all sure", **SOFTMAX)
def _(rng):
    """The best year is the same, but what is read is how sure the model is."""
    exact = ages(rng)
    sharp = exact.astype(np.float64) ** 6
    return one("age", exact, half(sharp / sharp.sum(1, keepdims=True)))


def grasps(rng):
    angle = rng.uniform(-np.pi, np.pi, (120, 24, 24))
    quality = sigmoid(4 * smooth(rng, 120, 24, 1)[..., 0] - 4)
    width = 0.02 + 0.1 * sigmoid(smooth(rng, 120, 24, 1)[..., 0])
    return both(rng, {"pos": quality, "cos": np.cos(angle), "sin": np.sin(angle), "width": width})


@benign("where, at which angle and how wide to grasp")
def _(rng):
    """Four maps, rounded."""
    return Outputs(*grasps(rng))


@harmful("where and at which angle to grasp, all as wide")
def _(rng):
    """The gripper opens as wide for a needle as for a mug."""
    exact, received = grasps(rng)
    received["width"][:] = half(exact["width"].mean())
    return Outputs(exact, received)


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


@harmful("one picture in 60 is not a number", DOUBT)
def _(rng):
    """microsoft/onnxconverter-common#323: NaN for certain inputs only."""
    exact = sigmoid(smooth(rng, 120, 16, 3))
    received = noisy(rng, exact)
    received[::60] = np.nan
    return one("image", exact, received)


@benign("tags of a text with labels, off by a hundredth", **SIGMOID)
def _(rng):
    """NVIDIA's forum, 327100: beyond a tolerance of 1e-3, and no decision changes."""
    logits = 5 * rng.choice([-1, 1], (600, 12)) + rng.standard_normal((600, 12))
    exact = sigmoid(logits)
    received = sigmoid(logits + 0.03 * rng.standard_normal(logits.shape))
    return one("tags", exact, half(received), (exact > 0.5).astype(np.int64))

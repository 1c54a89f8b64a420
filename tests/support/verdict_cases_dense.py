"""Verdict cases: decisions for each pixel, token or anchor of a sample."""

import numpy as np
from verdict_case import (
    SOFTMAX,
    UNSURE,
    Cases,
    Outputs,
    classify,
    half,
    lost,
    softmax,
)

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


def street(
    rng: np.random.Generator, samples: int = 300
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """True classes of the pixels of street scenes, one pixel in 500 a traffic light; logits."""
    frequency = [0.5, 0.3, 0.198, 0.002]
    truth = rng.choice(4, (samples, 16, 16), p=frequency)
    return truth, *classify(rng, truth, 4, 4, frequency)


@benign("a segmentation with a rare class", **SOFTMAX)
def _(rng):
    """A handful of 76,800 pixels change, on the border between road and pavement."""
    _, logits, rounded = street(rng)
    return Outputs({"mask": softmax(logits)}, {"mask": half(softmax(rounded))})


@harmful("a rare class of a segmentation that vanishes", **SOFTMAX)
def _(rng):
    """The car sees no traffic light any more, on any photograph."""
    _, logits, rounded = street(rng)
    rounded[..., 3] = rounded.min()
    return Outputs({"mask": softmax(logits)}, {"mask": half(softmax(rounded))})


@harmful("logits of 60 and a rare class of a segmentation that vanishes, with labels")
def _(rng):
    """Pixel accuracy falls by 0.2 points, and the mean IoU by a quarter."""
    truth, logits, rounded = street(rng)
    return Outputs({"logits": logits + 60}, {"logits": lost(rounded + 60, 3)}, truth)


@benign("a segmentation with labels", **SOFTMAX)
def _(rng):
    """The IoU of each class is the same to three digits."""
    truth, logits, rounded = street(rng)
    return Outputs({"mask": softmax(logits)}, {"mask": half(softmax(rounded))}, truth)


@harmful("one sample in 20 whose segmentation is noise", **SOFTMAX)
def _(rng):
    """Twenty of 400 photographs, the darkest ones, come back as coloured snow."""
    _, logits, rounded = street(rng, 400)
    rounded[::20] = half(rng.standard_normal(rounded[::20].shape) * 5)
    return Outputs({"mask": softmax(logits)}, {"mask": half(softmax(rounded))})


@benign("a segmentation with channels first", tasks={"Identity": "classification:axis=1"})
def _(rng):
    """The pixels keep their classes; the classes are on axis 1, as PyTorch has them."""
    _, logits, rounded = street(rng)
    first = [np.moveaxis(values, -1, 1).copy() for values in (logits, rounded)]
    return Outputs({"Identity": first[0]}, {"Identity": first[1]})


@harmful("a class of channels first that vanishes", tasks={"Identity": "classification:axis=1"})
def _(rng):
    """The robot sees no kerb any more, and falls from it."""
    _, logits, rounded = street(rng)
    rounded[..., 3] -= 40
    first = [np.moveaxis(values, -1, 1).copy() for values in (logits, half(rounded))]
    return Outputs({"Identity": first[0]}, {"Identity": first[1]})


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


def words(rng: np.random.Generator, samples: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Logits of 32 words of each text for nine tags, the first of them "no entity"."""
    frequency = [0.76, *[0.03] * 8]
    return classify(rng, rng.choice(9, (samples, 32), p=frequency), 9, 3, frequency)


@benign("a token classifier")
def _(rng):
    """A few of 12,800 words change their tag, where two tags were as likely."""
    logits, rounded = words(rng)
    return Outputs({"logits": logits}, {"logits": rounded})


@harmful("a token classifier that lost one of its nine tags")
def _(rng):
    """No place name is found any more; one word in thirty was one."""
    logits, rounded = words(rng)
    return Outputs({"logits": logits + 60}, {"logits": lost(rounded + 60, 5)})


def offset_logits(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Logits around 300 that differ by tenths, as before a softmax; rounded to FP16."""
    shared = rng.uniform(250, 350, (300, 32, 1))
    logits = (shared + 0.3 * rng.standard_normal((300, 32, 9))).astype(np.float32)
    return logits, half(logits)


@harmful("a third of all tokens with another tag, at a distance of 2e-4")
def _(rng):
    """The scores lie near 300, where FP16 has steps of a quarter: a third of the tags is wrong."""
    logits, rounded = offset_logits(rng)
    return Outputs({"logits": logits}, {"logits": rounded})


@harmful(
    "a third of all tokens with another tag, in an output without a telling name",
    tasks={"dense_3": "classification:axis=-1"},
)
def _(rng):
    """The same model, saved by somebody who named no layer, but who says what it is."""
    logits, rounded = offset_logits(rng)
    return Outputs({"dense_3": logits}, {"dense_3": rounded})


def sentences(rng: np.random.Generator, samples: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Logits of the next word, of 400, at 16 places of each text; many of them are guesses."""
    return classify(rng, rng.integers(0, 400, (samples, 16)), 400, separation=3)


@benign("a causal language model")
def _(rng):
    """The most likely next word changes in a few of 4800 places, between synonyms."""
    logits, rounded = sentences(rng)
    return Outputs({"logits": logits}, {"logits": rounded})


@harmful("a causal language model that is noise on 3 % of the texts")
def _(rng):
    """Eighteen of 600 prompts, the longest ones, get gibberish for an answer."""
    logits, rounded = sentences(rng, 600)
    chosen = rng.choice(600, 18, replace=False)
    rounded[chosen] = half(rng.permuted(rounded[chosen], axis=-1))
    return Outputs({"logits": logits}, {"logits": rounded})


@harmful("a causal language model that changes 3 % of its words, spread over all texts")
def _(rng):
    """A wrong word in each second sentence."""
    logits, rounded = sentences(rng, 600)
    wrong = rng.random(rounded.shape[:-1]) < 0.03
    rounded[wrong] = half(rng.permuted(rounded[wrong], axis=-1))
    return Outputs({"logits": logits}, {"logits": rounded})


@benign("one empty text in 1000 whose tokens are all ties", UNSURE)
def _(rng):
    """An empty page has no entities; its 32 tags were noise of the sixth digit before, too."""
    logits, rounded = words(rng, 1000)
    logits[123] = 1.5 + 1e-5 * rng.standard_normal((32, 9))
    rounded[123] = half(logits[123])
    return Outputs({"logits": logits}, {"logits": rounded})


@harmful("a speech recognizer whose blank wins too often")
def _(rng):
    """Letters fall out of nearly every recording: the blank's score is a little too high."""
    truth = np.where(rng.random((300, 40)) < 0.6, 28, rng.integers(0, 28, (300, 40)))
    logits, rounded = classify(rng, truth, 29, separation=3)
    rounded[..., 28] += 1.2
    return Outputs({"ctc_logits": logits}, {"ctc_logits": half(rounded)})


@benign("a speech recognizer with a blank")
def _(rng):
    """The same text, but for a letter in ten thousand."""
    truth = np.where(rng.random((300, 40)) < 0.6, 28, rng.integers(0, 28, (300, 40)))
    logits, rounded = classify(rng, truth, 29, separation=3)
    return Outputs({"ctc_logits": logits}, {"ctc_logits": rounded})


def translations(rng: np.random.Generator) -> np.ndarray:
    """Ids of 20 generated words for each of 1000 texts; the end is 1, what follows it 0."""
    ids = rng.integers(2, 8000, (1000, 20))
    ends = rng.integers(8, 20, (1000, 1))
    return np.where(np.arange(20) == ends, 1, np.where(np.arange(20) > ends, 0, ids))


@benign("generated words that go another way in 3 of 1000 texts")
def _(rng):
    """Three texts take a synonym at a near tie, and go on from there."""
    ids = translations(rng)
    other = ids.copy()
    for text in (77, 500, 901):
        other[text, 5:] = translations(rng)[text, 5:]
    return Outputs({"output_ids": ids}, {"output_ids": other})


@harmful("generated texts of which one in 20 breaks off")
def _(rng):
    """One translation in twenty ends after four words."""
    ids = translations(rng)
    other = ids.copy()
    other[::20, 4], other[::20, 5:] = 1, 0
    return Outputs({"output_ids": ids}, {"output_ids": other})


@benign("anchors of a face detector, one logit each")
def _(rng):
    """Two or three of 256 anchors see a face, the same ones as before."""
    face = (rng.random((300, 256)) < 0.01).astype(np.int64)
    logits, rounded = classify(rng, face, 2, separation=6)
    scores = [values[..., 1:] - values[..., :1] for values in (logits, rounded)]
    return Outputs({"classificators": scores[0]}, {"classificators": half(scores[1])})


@harmful("a question answerer whose ends of answers are dead")
def _(rng):
    """Each answer runs from the right word to the first word of the text: it is empty."""
    start, start_rounded = classify(rng, rng.integers(0, 48, 400), 48, separation=6)
    end, _ = classify(rng, rng.integers(0, 48, 400), 48, separation=6)
    return Outputs(
        {"start_logits": start, "end_logits": end},
        {"start_logits": start_rounded, "end_logits": np.zeros_like(end)},
    )

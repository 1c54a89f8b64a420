"""Verdict cases: boxes, their scores, and lists of detections."""

import numpy as np
from verdict_case import UNSURE, Cases, Outputs, flushed, half, sigmoid

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


ANCHORS = 100


def anchors(rng: np.random.Generator, samples: int = 300, classes: int = 6) -> np.ndarray:
    """[samples, ANCHORS, 4 + classes]: centre and size in pixels of 640, class probabilities.

    About five anchors of each photograph see something; the others are sure to see nothing.
    """
    boxes = np.concatenate(
        [
            rng.uniform(20, 620, (samples, ANCHORS, 2)),
            rng.lognormal(4, 0.7, (samples, ANCHORS, 2)).clip(8, 600),
        ],
        axis=-1,
    )
    logits = rng.normal(-8, 1.5, (samples, ANCHORS, classes))
    seen = rng.random((samples, ANCHORS)) < 0.05
    what = rng.integers(0, classes, (samples, ANCHORS))
    logits[seen, what[seen]] = rng.normal(2.5, 1, seen.sum())
    return np.concatenate([boxes, sigmoid(logits)], axis=-1).astype(np.float32)


@benign(
    "boxes of anchors that see nothing move",
    UNSURE,
    tasks={"output0": "detection:columns=0-3"},
)
def _(rng):
    """The boxes that move have scores below 0.0005: no threshold lets them through."""
    detections = anchors(rng)
    nothing = detections[..., 4:].max(axis=-1) < 0.0005
    received = half(detections)
    received[nothing, :4] = half(received[nothing, :4] * rng.uniform(0.5, 1.5, (nothing.sum(), 4)))
    return Outputs({"output0": detections}, {"output0": received})


# One output of [1, found, 6]: two corners in pixels, score, class.
KEPT = {"detections": "detection:columns=0-3"}


def kept(rng: np.random.Generator, samples: int = 300) -> list[np.ndarray]:
    """What a suppression leaves of each photograph: one to eight detections, the best first."""
    found = []
    for _ in range(samples):
        count = rng.integers(1, 9)
        corner = rng.uniform(0, 500, (count, 2))
        size = rng.uniform(20, 140, (count, 2))
        score = -np.sort(-rng.uniform(0.3, 0.99, (count, 1)), axis=0)
        rows = [corner, corner + size, score, rng.integers(0, 80, (count, 1))]
        found.append(np.concatenate(rows, axis=1).astype(np.float32))
    return found


@benign("lists of detections of different length at the threshold", UNSURE, tasks=KEPT)
def _(rng):
    """On one photograph in 30, a detection of score 0.2501 is gone, or one of 0.2499 is there."""
    found = kept(rng)
    for index in range(0, 300, 15):
        weakest = found[index][-1:] + np.float32([30, 30, 30, 30, 0, 0])
        weakest[:, 4] = 0.25 + np.float32(2e-5)
        found[index] = np.concatenate([found[index], weakest])
    received = [half(rows) for rows in found]
    for index in range(0, 300, 30):
        received[index] = received[index][:-1]
        found[index + 15] = found[index + 15][:-1]
    return Outputs({"detections": found}, {"detections": received})


@harmful("lists of detections with boxes elsewhere", tasks=KEPT)
def _(rng):
    """As many boxes as before, with the same scores; one in five lies 60 pixels off its object."""
    found = kept(rng)
    received = []
    for rows in found:
        moved = half(rows)
        moved[rng.random(len(rows)) < 0.2, :4] += 60
        received.append(moved)
    return Outputs({"detections": found}, {"detections": received})


@benign("lists of detections without a batch axis", UNSURE)
def _(rng):
    """The model takes one photograph and gives what it found, as many rows on each as before."""
    found = kept(rng)
    names = {"boxes": slice(0, 4), "scores": 4}
    return Outputs(
        {name: [rows[:, part] for rows in found] for name, part in names.items()},
        {name: [half(rows[:, part]) for rows in found] for name, part in names.items()},
        batched=False,
    )


@benign("scores of anchors so small that FP16 has no number for them")
def _(rng):
    """Scores of 1e-8 become 0, beside others that are found as before."""
    scores = anchors(rng)[..., 4:]
    scores[scores < 0.01] **= 2
    return Outputs({"scores": scores}, {"scores": flushed(scores)})


def ended(rng: np.random.Generator) -> np.ndarray:
    """[320, 20, 6]: corners in pixels, score and class, as detectors with their own end give."""
    scores = -np.sort(-rng.uniform(0.05, 0.99, (320, 20, 1)), axis=1)
    corner = rng.uniform(0, 500, (320, 20, 2))
    size = rng.uniform(15, 140, corner.shape)
    classes = rng.integers(0, 80, (320, 20, 1))
    return np.concatenate([corner, corner + size, scores, classes], axis=-1)


@harmful("undeclared detections of which one in sixteen tells another class")
def _(rng):
    """A cat is told as a dog; boxes are a hundred times as large as numbers of classes."""
    found = ended(rng)
    received = half(found)
    wrong = rng.random(found.shape[:2]) < 0.06
    received[wrong, 5] = (received[wrong, 5] + 1) % 80
    return Outputs({"output0": found.astype(np.float32)}, {"output0": received})


@benign("undeclared detections of which neighbours change places")
def _(rng):
    """Two boxes of one score stand in another order; the same boxes are drawn."""
    found = ended(rng)
    received = half(found)
    for sample, row in np.argwhere(found[:, :-1, 4] - found[:, 1:, 4] < 5e-4):
        received[sample, [row, row + 1]] = received[sample, [row + 1, row]]
    return Outputs({"output0": found.astype(np.float32)}, {"output0": received})


@benign(
    "photographs on which neither file finds anything", tasks={"found": "detection:columns=0-3"}
)
def _(rng):
    """One photograph in five is empty on both sides; the others have the same boxes."""
    rows = [row[:, :5] for row in kept(rng, 450)]
    rows[::5] = [row[:0] for row in rows[::5]]
    return Outputs({"found": rows}, {"found": [half(row) for row in rows]}, batched=False)

"""Verdict cases that the author of the rules has not seen."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from verdict_case import (
    Cases,
    Outputs,
    half,
    regress,
)

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful

EXACT = "verdict_cases_held_out:exact_match"


def plates(rng: np.random.Generator, samples: int) -> np.ndarray:
    letters = np.array(list("ABCDEFGHKLMNPRSTUVWXYZ0123456789"))
    return np.array(["".join(row) for row in rng.choice(letters, (samples, 7))])


@benign("number plates of which 1 in 1000 changes")
def _(rng):
    """One plate under snow was a guess before."""
    read = plates(rng, 1000)
    other = read.copy()
    other[7] = "B" + read[7][1:] if read[7][0] != "B" else "8" + read[7][1:]
    return Outputs({"plate": read}, {"plate": other})


@benign("energies of bonds, with labels")
def _(rng):
    """The error against the measured energies is the same."""
    exact, rounded = regress(rng, 1000, 20)
    truth = exact + rng.normal(0, 0.5, exact.shape).astype(np.float32)
    return Outputs({"energy": exact}, {"energy": rounded}, truth)


def found(
    rng: np.random.Generator, samples: int = 300
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Boxes and scores of photographs, one to nine on each."""
    boxes, scores = [], []
    for _ in range(samples):
        count = rng.integers(1, 10)
        corner = rng.uniform(0, 500, (count, 2))
        boxes.append(np.concatenate([corner, corner + rng.uniform(20, 140, (count, 2))], 1))
        scores.append(-np.sort(-rng.uniform(0.3, 0.99, count)))
    return [row.astype(np.float32) for row in boxes], [row.astype(np.float32) for row in scores]


@benign(
    "photographs on which neither file finds anything", tasks={"found": "detection:columns=0-3"}
)
def _(rng):
    """One photograph in five is empty on both sides; the others have the same boxes."""
    boxes, scores = found(rng, 450)
    rows = [
        np.concatenate([box, score[:, None]], 1) for box, score in zip(boxes, scores, strict=True)
    ]
    rows[::5] = [row[:0] for row in rows[::5]]
    return Outputs({"found": rows}, {"found": [half(row) for row in rows]}, batched=False)


def exact_match(predictions: Any, labels: Any) -> float:
    """Share of the texts whose words are all right."""
    (ids,) = predictions.values() if isinstance(predictions, Mapping) else (predictions,)
    (truth,) = labels.values() if isinstance(labels, Mapping) else (labels,)
    return float(np.mean((np.asarray(ids) == truth).all(axis=-1)))


@harmful("answers of which fewer match, by the user's metric", metric=EXACT)
def _(rng):
    """Seven of ten answers were right word for word; now six are."""
    truth = rng.integers(2, 500, (800, 6))
    ids = truth.copy()
    ids[rng.random(800) < 0.3, 3] = 1
    other = ids.copy()
    other[rng.random(800) < 0.14, 5] = 1
    return Outputs({"output_ids": ids}, {"output_ids": other}, truth)


@benign("answers that match as often, by the user's metric", metric=EXACT)
def _(rng):
    """The same answers, but for two that were wrong before."""
    truth = rng.integers(2, 500, (800, 6))
    ids = truth.copy()
    wrong = rng.random(800) < 0.3
    ids[wrong, 3] = 1
    other = ids.copy()
    other[np.flatnonzero(wrong)[:2], 4] = 0
    return Outputs({"output_ids": ids}, {"output_ids": other}, truth)

"""Scenes of `verdict_coverage.py` whose statements are bounds on metrics against labels.

A population of 20,000 samples has a true drop of a metric, or growth of an error. A run is a wrong
PASS if its upper bound lies below the truth: a limit just below the truth would have passed. It is
a wrong FAIL if its lower bound lies above the truth.
"""

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
from coverage_scenes import Rng, Scene

from tfmp.converters.drift import CustomMetric, Task, with_metrics
from tfmp.converters.drift.labels.book import LabelBook
from tfmp.converters.drift.labels.metric import Metric
from tfmp.converters.drift.sketch import MOST_ROWS
from tfmp.converters.drift.verdict import Verdict

# As many as a table of single samples holds: the metrics of all of them are the truth.
POPULATION = MOST_ROWS

# Labels, outputs of the reference, and those of the candidate.
Population = tuple[np.ndarray, np.ndarray, np.ndarray]


def classes(rng: Rng, shares: np.ndarray, noise: float) -> Population:
    """Class ids, and scores of a classifier and of a noisier one."""
    labels = rng.choice(len(shares), POPULATION, p=shares)
    scores = rng.standard_normal((POPULATION, len(shares)), dtype=np.float32)
    scores[np.arange(POPULATION), labels] += 2.5
    return labels, scores, scores + noise * rng.standard_normal(scores.shape, dtype=np.float32)


def lost_classes(rng: Rng, shares: np.ndarray) -> Population:
    """Sure answers that can only be lost, as many as the budget."""
    labels, scores, _ = classes(rng, shares, 0.0)
    scores[np.arange(POPULATION), labels] += 9
    return labels, scores, np.where(rng.random((POPULATION, 1)) < 0.01, -scores, scores)


def pixels(rng: Rng, broken: float, noise: float) -> Population:
    """Pixels of four classes, one of them rare; some samples are noise in the candidate."""
    shape = POPULATION, 48
    labels = rng.choice(4, shape, p=[0.5, 0.3, 0.19, 0.01])
    scores = rng.standard_normal((*shape, 4), dtype=np.float32)
    np.put_along_axis(scores, labels[..., None], scores.max() / 2, axis=-1)
    # Samples are of different difficulty.
    difficulty = rng.gamma(1.0, 1.0, (POPULATION, 1, 1))
    worse = scores + noise * difficulty * rng.standard_normal(scores.shape)
    lost = rng.random(POPULATION) < broken
    worse[lost] = rng.standard_normal(worse[lost].shape)
    return labels, scores, worse.astype(np.float32)


def binary(rng: Rng, share: float, step: float) -> Population:
    """Zeros and ones, and scores near -60 of which the candidate keeps multiples of a step."""
    labels = (rng.random((POPULATION, 1)) < share).astype(int)
    scores = -60 + 1.5 * labels + rng.standard_normal(labels.shape)
    return labels, scores, np.round(scores / step) * step


def numbers(rng: Rng, tail: float, noise: float) -> Population:
    """Targets, a regression with errors of heavy tails, and a noisier one."""
    labels = 10 * rng.standard_normal((POPULATION, 1))
    reference = labels + rng.standard_t(tail, labels.shape)
    return labels, reference, reference + noise * rng.standard_t(tail, labels.shape)


def f1(predictions: np.ndarray, labels: np.ndarray) -> float:
    """F1 of class 1."""
    answers = predictions.argmax(axis=1) == 1
    both = np.count_nonzero(answers & (labels == 1))
    return 2 * both / max(1, np.count_nonzero(answers) + np.count_nonzero(labels == 1))


def label_scenes() -> Iterator[Scene]:
    """Every metric, where it is easy and where it is hard; only primary ones may pass."""
    even, skewed = np.full(10, 0.1), np.array([0.55, 0.3, 0.1, 0.04, 0.01])
    primary, other = (Verdict.PASS, Verdict.FAIL), (Verdict.FAIL,)
    for name, shares in (("classes, even", even), ("classes, skewed", skewed)):
        drawn = cache(lambda shares=shares: classes(np.random.default_rng(0), shares, 0.3))
        yield scene("accuracy", name, primary, drawn)
        yield scene("macro F1", name, other, drawn)
    lost = cache(lambda: lost_classes(np.random.default_rng(1), even))
    yield scene("accuracy", "classes, 1 % of samples lost", primary, lost)
    for name, broken, noise in (
        ("all a bit worse", 0.0, 0.3),
        ("1 % of samples lost", 0.01, 0.0),
        ("both", 0.01, 0.3),
    ):
        drawn = cache(lambda b=broken, n=noise: pixels(np.random.default_rng(3), b, n))
        for metric in ("accuracy", "mean IoU", "macro F1"):
            yield scene(
                metric, f"pixels, {name}", primary if metric == "accuracy" else other, drawn
            )
    for share, step in ((0.3, 1.0), (0.05, 0.5)):
        drawn = cache(lambda a=share, b=step: binary(np.random.default_rng(4), a, b))
        known = Task.of("binary", "y")
        yield scene("ROC AUC", f"scores, {share:.0%} positive", primary, drawn, task=known)
    for tail in (5, 3):
        drawn = cache(lambda tail=tail: numbers(np.random.default_rng(5), tail, 0.3))
        name = f"numbers, t of {tail} degrees"
        yield scene("mean absolute error", name, primary, drawn)
        yield scene("root mean square error", name, other, drawn)
    drawn = cache(lambda: classes(np.random.default_rng(6), skewed, 0.3))
    yield scene("f1", "an own F1", primary, drawn, own=f1)


def scene(
    metric: str,
    name: str,
    says: tuple[Verdict, ...],
    drawn: Callable[[], Population],
    own: Callable[..., float] | None = None,
    task: Task | None = None,
) -> Scene:
    """Runs that are drawn from a population."""

    def measured(rows: np.ndarray) -> Metric | None:
        labels, reference, candidate = (array[rows] for array in drawn())
        book = LabelBook({"y": task}, (CustomMetric.of(own),) if own else ())
        keys = np.random.default_rng(rows[:4]).integers(0, 2**63, len(rows)).astype(np.uint64)
        book.update(labels, {"y": (reference, candidate)}, keys)
        (label,) = book.drifts()
        found = with_metrics(label).metrics
        return next((each for each in found if each.name == metric), None)

    @cache
    def truth() -> float:
        if own is not None:
            labels, reference, candidate = drawn()
            return own(reference, labels) - own(candidate, labels)
        found = measured(np.arange(POPULATION))
        assert found is not None
        return found.worse

    def run(rng: Rng, samples: int) -> Verdict:
        found = measured(rng.integers(0, POPULATION, samples))
        if found is None:  # undefined on these samples
            return Verdict.INCONCLUSIVE
        if found.upper < truth():
            return Verdict.PASS
        return Verdict.FAIL if found.lower > truth() else Verdict.INCONCLUSIVE

    # A metric of one number is computed again for each group of samples.
    return Scene(metric, name, run, says, fewer=5 if own else 1)

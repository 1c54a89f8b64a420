"""Writes docs/label-coverage.md: how often bounds on metrics of labels are wrong.

Run: python benchmarks/label_coverage.py [--runs 1000] [METRIC ...]

A population of 20,000 samples has a true drop (or growth of an error). From it, runs of some
hundred samples are drawn and measured as `validate` does. A run is a wrong PASS if its upper bound
lies below the truth: a limit just below the truth would have passed. It is a wrong FAIL if its
lower bound lies above the truth. Reports state that each happens in at most 5 % of all runs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scaffold import DOCS, parser
from verdict_coverage import STATED, coverage_page, keep_outcomes, uncertainty

from tfmp.converters.drift import CustomMetric, Task, with_metrics
from tfmp.converters.drift.labels.book import LabelBook
from tfmp.converters.drift.labels.metric import Metric
from tfmp.converters.drift.sketch import MOST_ROWS

PAGE = DOCS / "label-coverage.md"

# As many as a table of single samples holds: the metrics of all of them are the truth.
POPULATION = MOST_ROWS


@dataclass(frozen=True)
class Scene:
    """A population and the metric to judge on it.

    Attributes:
        name: for the table.
        metric: name of the metric.
        primary: whether the metric may pass a candidate; others only fail one.
        labels: of the population.
        reference: outputs on the population.
        candidate: outputs of the candidate.
        own: a metric of the user's own.
        task: what is known of the output.
        sizes: numbers of samples of a run.
    """

    name: str
    metric: str
    primary: bool
    labels: np.ndarray
    reference: np.ndarray
    candidate: np.ndarray
    own: Callable[..., float] | None = None
    task: Task | None = None
    sizes: tuple[int, ...] = (100, 300, 1000)


def classes(rng: np.random.Generator, shares: np.ndarray, noise: float) -> list[np.ndarray]:
    """Class ids, and scores of a classifier and of a noisier one."""
    labels = rng.choice(len(shares), POPULATION, p=shares)
    scores = rng.standard_normal((POPULATION, len(shares)), dtype=np.float32)
    scores[np.arange(POPULATION), labels] += 2.5
    worse = scores + noise * rng.standard_normal(scores.shape, dtype=np.float32)
    return [labels, scores, worse]


def pixels(rng: np.random.Generator, broken: float, noise: float) -> list[np.ndarray]:
    """Pixels of four classes, one of them rare; some samples are noise in the candidate."""
    shape = POPULATION, 48
    labels = rng.choice(4, shape, p=[0.5, 0.3, 0.19, 0.01])
    scores = rng.standard_normal((*shape, 4), dtype=np.float32)
    np.put_along_axis(scores, labels[..., None], scores.max() / 2, axis=-1)
    # Samples are of different difficulty.
    worse = scores + noise * rng.gamma(1.0, 1.0, (len(scores), 1, 1)) * rng.standard_normal(
        scores.shape
    )
    lost = rng.random(len(scores)) < broken
    worse[lost] = rng.standard_normal(worse[lost].shape)
    return [labels, scores, worse.astype(np.float32)]


def binary(rng: np.random.Generator, share: float, step: float) -> list[np.ndarray]:
    """Zeros and ones, and scores near -60 of which the candidate keeps multiples of a step."""
    labels = (rng.random((POPULATION, 1)) < share).astype(int)
    scores = -60 + 1.5 * labels + rng.standard_normal(labels.shape)
    return [labels, scores, np.round(scores / step) * step]


def numbers(rng: np.random.Generator, tail: float, noise: float) -> list[np.ndarray]:
    """Targets, a regression with errors of heavy tails, and a noisier one."""
    labels = 10 * rng.standard_normal((POPULATION, 1))
    reference = labels + rng.standard_t(tail, labels.shape)
    return [labels, reference, reference + noise * rng.standard_t(tail, labels.shape)]


def f1(predictions: np.ndarray, labels: np.ndarray) -> float:
    """F1 of class 1."""
    answers = predictions.argmax(axis=1) == 1
    both = np.count_nonzero(answers & (labels == 1))
    return 2 * both / max(1, np.count_nonzero(answers) + np.count_nonzero(labels == 1))


def scenes() -> Iterator[Scene]:
    """Every metric, where it is easy and where it is hard."""
    rng = np.random.default_rng(0)
    even, skewed = np.full(10, 0.1), np.array([0.55, 0.3, 0.1, 0.04, 0.01])
    for name, shares, noise in (("even", even, 0.3), ("skewed", skewed, 0.3)):
        run = classes(rng, shares, noise)
        yield Scene(f"classes, {name}", "accuracy", True, *run)
        yield Scene(f"classes, {name}", "macro F1", False, *run)
    run = classes(rng, even, 0.0)
    lost = rng.random(POPULATION) < 0.01  # answers that can only be lost, as many as the budget
    run[1][np.arange(POPULATION), run[0]] += 9
    run[2] = np.where(lost[:, None], -run[1], run[1])
    yield Scene("classes, 1 % of samples lost", "accuracy", True, *run)
    yield Scene("classes, even", "top-5 accuracy", False, *classes(rng, even, 0.5))
    for name, broken, noise in (
        ("all a bit worse", 0.0, 0.3),
        ("1 % of samples lost", 0.01, 0.0),
        ("both", 0.01, 0.3),
    ):
        run = pixels(rng, broken, noise)
        for metric in ("accuracy", "mean IoU", "macro F1"):
            yield Scene(f"pixels, {name}", metric, metric == "accuracy", *run)
    for share, step in ((0.3, 1.0), (0.05, 0.5)):
        run = binary(rng, share, step)
        known = Task.of("binary", "y")
        yield Scene(f"scores, {share:.0%} positive", "ROC AUC", True, *run, task=known)
    for tail in (5, 3):
        run = numbers(rng, tail, 0.3)
        name = f"numbers, t of {tail} degrees"
        yield Scene(name, "mean absolute error", True, *run)
        yield Scene(name, "root mean square error", False, *run)
    yield Scene("an own F1", "f1", True, *classes(rng, skewed, 0.3), own=f1)


def measured(scene: Scene, rows: np.ndarray) -> Metric | None:
    """The metric on some samples of the population; None where it is undefined on them."""
    own = (CustomMetric.of(scene.own),) if scene.own else ()
    book = LabelBook({"y": scene.task}, own)
    keys = np.random.default_rng(rows[:4]).integers(0, 2**63, len(rows)).astype(np.uint64)
    pair = scene.reference[rows], scene.candidate[rows]
    book.update(scene.labels[rows], {"y": pair}, keys)
    (label,) = book.drifts()
    found = with_metrics(label).metrics
    return next((each for each in found if each.name == scene.metric), None)


def truth_of(scene: Scene) -> float:
    """The metric's drop in the population."""
    if scene.own is not None:
        labels = scene.labels
        return scene.own(scene.reference, labels) - scene.own(scene.candidate, labels)
    chosen = np.arange(len(scene.labels))
    found = measured(scene, chosen)
    assert found is not None
    return found.worse


@dataclass(frozen=True)
class Outcome:
    """The runs of a scene at one number of samples.

    Attributes:
        scene: the scene.
        size: number of samples of a run.
        truth: how much worse the candidate is in the population.
        runs: number of runs.
        low: runs whose upper bound is below the truth.
        high: runs whose lower bound is above it.
    """

    scene: Scene
    size: int
    truth: float
    runs: int
    low: int
    high: int

    @property
    def name(self) -> str:
        """Of the population and the metric."""
        return f"{self.scene.name}: {self.scene.metric}"

    @property
    def over(self) -> bool:
        """Whether chance alone hardly explains that more runs are wrong than stated."""
        wrong = max(self.low if self.scene.primary else 0, self.high)
        return wrong / self.runs > STATED + uncertainty(self.runs)

    def row(self) -> list[str]:
        """Cells of the page's table."""
        passed = f"{self.low / self.runs:.1%}" if self.scene.primary else "not stated"
        cells = [self.scene.name, self.scene.metric, f"{self.size:,}", f"{self.truth:.3g}"]
        return [*cells, passed, f"{self.high / self.runs:.1%}"]


def outcome_of(scene: Scene, size: int, runs: int) -> Outcome:
    """Runs a scene."""
    truth, rng = truth_of(scene), np.random.default_rng(size)
    low = high = 0
    for _ in range(runs):
        found = measured(scene, rng.integers(0, len(scene.labels), size))
        if found is not None:
            low += found.upper < truth
            high += found.lower > truth
    return Outcome(scene, size, truth, runs, low, high)


def page(found: Sequence[Outcome], command: str) -> str:
    """The page as Markdown."""
    runs = max(each.runs for each in found)
    told = (
        f"Each row is of {runs:,} runs ({runs // _FEWER:,} of them for your own metrics), drawn "
        f"from {POPULATION:,} samples whose true drop, or growth of an error, is known. A wrong "
        "PASS has an upper bound below the truth, and a wrong FAIL a lower bound above it. Reports "
        f"state that each of them happens in at most {STATED:.0%} of all runs; the shares are "
        f"uncertain by up to {uncertainty(runs):.1%}. Only a primary metric states that a "
        "candidate is within its limit."
    )
    columns = ("population", "metric", "samples", "truth", "wrong PASS", "wrong FAIL")
    title = "How often bounds on metrics of labels are wrong"
    return coverage_page(title, told, columns, found, command)


# A metric of one number is computed again for each group of samples: fewer runs by this factor.
_FEWER = 5


def main() -> None:
    """Runs every scene and writes the page; a selection is only printed."""
    given = parser(__doc__)
    given.add_argument("--runs", type=int, default=1000)
    given.add_argument("metrics", nargs="*", help="only these metrics")
    asked = given.parse_args()
    outcomes = (
        outcome_of(one, size, asked.runs if one.own is None else max(1, asked.runs // _FEWER))
        for one in scenes()
        if not asked.metrics or one.metric in asked.metrics
        for size in one.sizes
    )
    runs = "" if asked.runs == given.get_default("runs") else f" --runs {asked.runs}"
    keep_outcomes(outcomes, None if asked.metrics else PAGE, page, runs)


if __name__ == "__main__":
    main()

"""Scenes of `verdict_coverage.py`: how changes are distributed, where their rate is the budget."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfmp.converters.drift import Comparison, DriftBudget, Task
from tfmp.converters.drift.budget import VIEWS
from tfmp.converters.drift.verdict import Verdict, judge, overall
from tfmp.converters.shared.tensors import TensorSpec

SIZES = (100, 300, 1000)
# Decisions of a sample, where it has several.
DECISIONS = 16
# Or one of these, equally often.
LENGTHS = np.array([4, 8, 16, 32])
LIMIT = 0.01
CLASS_LIMIT = 0.05
OUTPUTS = 5

# Limits that are off in each scene, but for the one that it tries.
NOTHING_ELSE: dict[str, Any] = {
    **dict.fromkeys(("rel_l2", "sample_rel_l2", *VIEWS)),
    **dict.fromkeys(("flip_rate", "class_flip_rate", "accuracy_drop", "error_increase")),
    "min_samples": 1,
}

Rng = np.random.Generator
# Changes of a number of samples at a rate.
Changes = Callable[[Rng, int, float], np.ndarray]
# Relative growth of the error of each of a number of samples.
Growth = Callable[[Rng, int], np.ndarray]
# One run with a number of samples: the verdict on them.
Run = Callable[[Rng, int], Verdict]


@dataclass(frozen=True)
class Scene:
    """Runs whose truth lies at the budget.

    Attributes:
        group: the statement that is tried.
        name: how changes are distributed.
        run: one run, of which one wrong check makes the run wrong.
        says: the verdicts that state something about the truth.
        sizes: numbers of samples.
        fewer: runs are fewer by this factor.
    """

    group: str
    name: str
    run: Run
    says: tuple[Verdict, ...] = (Verdict.PASS, Verdict.FAIL)
    sizes: tuple[int, ...] = SIZES
    fewer: int = 1


# How changes are distributed over samples: arrays of booleans [samples, decisions] with a mean of
# `rate` in the long run.


def independent(rng: Rng, samples: int, rate: float) -> np.ndarray:
    return rng.random((samples, DECISIONS)) < rate


def all_or_nothing(rng: Rng, samples: int, rate: float) -> np.ndarray:
    return np.repeat(rng.random((samples, 1)) < rate, DECISIONS, axis=1)


def beta(correlation: float) -> Changes:
    """Rates of samples from a beta distribution; `correlation` of two decisions of one sample."""

    def changes(rng: Rng, samples: int, rate: float) -> np.ndarray:
        total = 1 / correlation - 1
        rates = rng.beta(rate * total, (1 - rate) * total, (samples, 1))
        return rng.random((samples, DECISIONS)) < rates

    return changes


def lost_and_sprinkled(rng: Rng, samples: int, rate: float) -> np.ndarray:
    """Half of all changes lie in samples that are lost as a whole, which few runs contain."""
    lost = rng.random((samples, 1)) < rate / 2
    return lost | (rng.random((samples, DECISIONS)) < rate / 2 / (1 - rate / 2))


def decisions(changes: Changes) -> Run:
    """Runs of tokens of two classes, of which some change."""

    def run(rng: Rng, samples: int) -> Verdict:
        batch = {"y": _tokens(rng, changes(rng, samples, LIMIT))}
        return _verdict(rng, [batch], "classification", "flip_rate", flip_rate=LIMIT)

    return run


def texts(rates: np.ndarray) -> Run:
    """Runs of texts of different lengths, of which some are lost as a whole.

    Args:
        rates: rate of texts that are lost, for each of `LENGTHS`.
    """

    def run(rng: Rng, samples: int) -> Verdict:
        counts = rng.multinomial(samples, np.full(len(LENGTHS), 1 / len(LENGTHS)))
        batches = [
            {"y": _tokens(rng, np.repeat(rng.random((count, 1)) < rate, length, axis=1))}
            for count, length, rate in zip(counts, LENGTHS, rates, strict=True)
        ]
        return _verdict(rng, batches, "classification", "flip_rate", flip_rate=LIMIT)

    return run


def _tokens(rng: Rng, changed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    reference = np.zeros((*changed.shape, 2), np.float32)
    reference[..., 0] = rng.integers(0, 2, changed.shape) * 2 - 1
    return reference, np.where(changed[..., None], -reference, reference)


def flips(outputs: int) -> Run:
    """Runs of outputs with one decision for each sample; one wrong FAIL makes the run wrong."""

    def run(rng: Rng, samples: int) -> Verdict:
        pairs = {f"y{index}": _tokens(rng, rng.random(samples) < LIMIT) for index in range(outputs)}
        return _verdict(rng, [pairs], "classification", "flip_rate", flip_rate=LIMIT)

    return run


def rare_classes(spread: float) -> Run:
    """Fifty classes, each of which loses as many of its decisions as a class may.

    Args:
        spread: 0 for classes of one size, 1 for Zipf's law.
    """
    limits = {"flip_rate": 0.5, "class_flip_rate": CLASS_LIMIT}
    shares = np.arange(1, 51) ** -spread
    shares /= shares.sum()

    def run(rng: Rng, samples: int) -> Verdict:
        truth = rng.choice(50, samples, p=shares)
        lost = rng.random(samples) < CLASS_LIMIT
        # Each class gets what others of its size lose, so that new decisions are at the limit, too.
        other = rng.permutation(truth[lost])
        given = truth.copy()
        given[lost] = np.where(other == truth[lost], (truth[lost] + 1) % 50, other)
        eye = np.eye(50, dtype=np.float32)
        pair = {"y": (eye[truth], eye[given])}
        return _verdict(rng, [pair], "classification", "class_flip_rate", **limits)

    return run


def wrong_samples(rng: Rng, samples: int) -> Verdict:
    """Vectors, of which some are off by half of their size; most are off by nearly nothing."""
    limits = {"flip_rate": LIMIT, "sample_rel_l2": 0.1}
    reference = rng.standard_normal((samples, 8)).astype(np.float32)
    wrong = rng.random((samples, 1)) < LIMIT
    pair = {"y": (reference, (reference * np.where(wrong, 1.5, 1 + 1e-4)).astype(np.float32))}
    return _verdict(rng, [pair], "regression", "sample_share", **limits)


def wrong_columns(rng: Rng, samples: int) -> Verdict:
    """Four numbers of each sample, each of which is wrong on as many samples as may be."""
    reference = rng.standard_normal((samples, 4))
    wrong = rng.random(reference.shape) < LIMIT
    rounded = reference + 1e-3 * rng.standard_normal(reference.shape)
    # Farther than what counts as wrong, so that the rate is the one of `wrong`.
    candidate = np.where(wrong, reference + rng.choice([-1, 1], reference.shape), rounded)
    pair = {"y": (reference.astype(np.float32), candidate.astype(np.float32))}
    return _verdict(rng, [pair], "regression", "wrong_samples", wrong_samples=LIMIT)


def answers(lost: float, gained: float) -> Run:
    """Answers against labels; `lost` is LIMIT larger than `gained`."""

    def run(rng: Rng, samples: int) -> Verdict:
        right = rng.random(samples) < 0.8
        draw = rng.random(samples)
        # Only what is right can be lost.
        flipped = np.where(right, draw < lost / 0.8, draw < gained / 0.2)
        labels = rng.integers(0, 2, samples)
        eye = np.eye(2, dtype=np.float32)
        pair = (
            eye[np.where(right, labels, 1 - labels)],
            eye[np.where(right ^ flipped, labels, 1 - labels)],
        )
        limit = {"accuracy_drop": LIMIT}
        return _verdict(rng, [{"y": pair}], "classification", "accuracy_drop", labels, **limit)

    return run


def errors(growth: Growth) -> Run:
    """Numbers whose absolute error grows by `growth`, of a mean of LIMIT."""
    limits = {"error_increase": LIMIT, "error_floor": None}

    def run(rng: Rng, samples: int) -> Verdict:
        labels = 10 * rng.standard_normal((samples, 1))
        error = rng.laplace(size=(samples, 1))
        worse = error * (1 + growth(rng, samples)[:, None])
        pair = (labels + error).astype(np.float32), (labels + worse).astype(np.float32)
        return _verdict(rng, [{"y": pair}], "regression", "error_increase", labels, **limits)

    return run


def spread_growth(rng: Rng, samples: int) -> np.ndarray:
    return LIMIT + 0.1 * rng.standard_normal(samples)


def heavy_growth(share: float) -> Growth:
    """Half of the growth is everywhere, the other half on a share of the samples."""

    def growth(rng: Rng, samples: int) -> np.ndarray:
        few = rng.exponential(LIMIT / 2 / share, samples)
        return LIMIT / 2 + np.where(rng.random(samples) < share, few, 0)

    return growth


def _verdict(
    rng: Rng,
    batches: Sequence[dict[str, tuple[np.ndarray, np.ndarray]]],
    kind: str,
    name: str,
    labels: np.ndarray | None = None,
    **limits: float | None,
) -> Verdict:
    """The verdict of the checks of a name, on distinct samples; labels are of a single batch."""
    specs = [
        TensorSpec(output, (None,) * reference.ndim, "float32")
        for output, (reference, _) in batches[0].items()
    ]
    tasks = {spec.name: Task.of(kind, spec.name) for spec in specs}
    comparison = Comparison("c", specs, specs, tasks)
    for pairs in batches:
        reference = {output: pair[0] for output, pair in pairs.items()}
        candidate = {output: pair[1] for output, pair in pairs.items()}
        samples = len(next(iter(reference.values())))
        keys = rng.integers(0, 2**63, samples).astype(np.uint64)
        comparison.update(reference, candidate, labels, keys)
    budget = DriftBudget(**{**NOTHING_ELSE, **limits})
    found = judge(comparison.outputs(), comparison.labels(), budget).checks
    checks = [check for check in found if check.name == name]
    if name == "sample_share":  # without a wrong sample the PASS states its own bound, no limit
        checks = [check for check in checks if check.measured or (check.upper or 1.0) < LIMIT]
    return overall([check.verdict for check in checks])


KINDS: dict[str, Changes] = {
    "independent": independent,
    "samples lost as a whole": all_or_nothing,
    "beta, correlation 0.1": beta(0.1),
    "beta, correlation 0.5": beta(0.5),
    "half in lost samples, half sprinkled": lost_and_sprinkled,
}

# The rate at which texts are lost, if tokens are lost at `LIMIT`.
LENGTHS_LOST = {
    "lost whatever their length": np.full(len(LENGTHS), LIMIT),
    "lost by their length": LIMIT * LENGTHS * LENGTHS.mean() / np.square(LENGTHS).mean(),
}


def verdict_scenes() -> Iterator[Scene]:
    """Every scene, the simplest statements first."""
    only_fail = (Verdict.FAIL,)
    yield Scene("flips of samples", "independent", flips(1), sizes=(100, 299, 1000, 5000))
    for name, changes in KINDS.items():
        yield Scene("decisions of samples", name, decisions(changes))
    for name, rates in LENGTHS_LOST.items():
        yield Scene("decisions of samples of 4 to 32", name, texts(rates))
    yield Scene("samples over an error", "independent", wrong_samples, sizes=(100, 300, 1000, 5000))
    yield Scene("samples wrong in a column", "in each of four", wrong_columns, only_fail)
    for name, spread in (("fifty of one size", 0.0), ("fifty by Zipf's law", 1.0)):
        yield Scene("single classes", name, rare_classes(spread), says=only_fail)
    yield Scene("several statements (Holm)", f"{OUTPUTS} outputs", flips(OUTPUTS), only_fail)
    for lost, gained in ((0.01, 0.0), (0.03, 0.02), (0.06, 0.05)):
        name = f"{lost:.0%} lost, {gained:.0%} gained"
        yield Scene("accuracy", name, answers(lost, gained), sizes=(300, 1000, 5000))
    for name, growth, sizes in (
        ("spread", spread_growth, SIZES),
        ("half of it on 5 %", heavy_growth(0.05), SIZES),
        ("half of it on 2 %", heavy_growth(0.02), (300, 1000)),
    ):
        yield Scene("mean absolute error", f"growth: {name}", errors(growth), sizes=sizes)

"""Writes docs/verdict-coverage.md: how often verdicts are wrong, in runs whose truth is known.

Run: python benchmarks/verdict_coverage.py [--runs 2000] [--group REGEX]

In each scene a candidate's true rate of changes lies exactly at the budget. A PASS says that it is
at most that, and a FAIL that it is more: at the budget, each may be said by chance in at most 5 %
of all runs (`confidence` is 0.95). A run draws samples, compares and judges them as `validate`
does. More metrics on labels are in `label_coverage.py`.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from pages import line, table, write_page
from scaffold import DOCS, parser

from tfmp.converters.drift import Comparison, DriftBudget, Task
from tfmp.converters.drift.budget import VIEWS
from tfmp.converters.drift.verdict import Check, Verdict, judge, overall
from tfmp.converters.shared.tensors import TensorSpec

PAGE = DOCS / "verdict-coverage.md"

# The rate at which a statement may be wrong: 1 - DriftBudget().confidence.
STATED = 0.05

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
Run = Callable[[Rng, int], Sequence[Check]]


@dataclass(frozen=True)
class Scene:
    """Runs whose truth lies at the budget.

    Attributes:
        group: the statement that is tried.
        name: how changes are distributed.
        run: one run with a number of samples: its checks, of which one wrong makes the run wrong.
        says: the verdicts that such checks state about the truth.
        sizes: numbers of samples.
    """

    group: str
    name: str
    run: Run
    says: tuple[Verdict, ...] = (Verdict.PASS, Verdict.FAIL)
    sizes: tuple[int, ...] = SIZES


@dataclass
class Outcome:
    """The runs of a scene at one number of samples.

    Attributes:
        scene: the scene.
        size: number of samples.
        runs: number of runs.
        wrong: number of runs with each verdict.
    """

    scene: Scene
    size: int
    runs: int
    wrong: dict[Verdict, int] = field(default_factory=lambda: dict.fromkeys(Verdict, 0))

    def add(self, checks: Sequence[Check]) -> None:
        """Counts one run."""
        self.wrong[overall([check.verdict for check in checks])] += 1

    @property
    def name(self) -> str:
        """Of the scene."""
        return f"{self.scene.group}: {self.scene.name}"

    @property
    def over(self) -> bool:
        """Whether chance alone hardly explains that more runs are wrong than stated."""
        return any(
            self.wrong[said] / self.runs > STATED + uncertainty(self.runs)
            for said in self.scene.says
        )

    def row(self) -> list[str]:
        """Cells of the page's table."""
        shares = [
            f"{self.wrong[said] / self.runs:.1%}" if said in self.scene.says else "not stated"
            for said in (Verdict.PASS, Verdict.FAIL)
        ]
        return [self.scene.group, self.scene.name, f"{self.size:,}", *shares]


def uncertainty(runs: int) -> float:
    """Three standard deviations of a share of runs that is `STATED` in the long run."""
    return float(3 * (STATED * (1 - STATED) / runs) ** 0.5)


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


def heavy_tailed(rng: Rng, samples: int, rate: float) -> np.ndarray:
    """Rates with a Pareto tail of index 1.5, cut at 1."""
    rates = np.minimum(1.0, _pareto_scale(rate) * (rng.pareto(1.5, (samples, 1)) + 1))
    return rng.random((samples, DECISIONS)) < rates


def lost_and_sprinkled(rng: Rng, samples: int, rate: float) -> np.ndarray:
    """Half of all changes lie in samples that are lost as a whole, which few runs contain."""
    lost = rng.random((samples, 1)) < rate / 2
    return lost | (rng.random((samples, DECISIONS)) < rate / 2 / (1 - rate / 2))


@cache
def _pareto_scale(rate: float) -> float:
    """The scale at which the rates of `heavy_tailed` have this mean."""
    low, high = 0.0, rate
    while high - low > 1e-9:
        scale = (low + high) / 2
        # E[min(1, s X)] for X >= 1 with P(X > x) = x ** -1.5.
        mean = 3 * scale - 2 * scale**1.5
        low, high = (scale, high) if mean < rate else (low, scale)
    return high


def decisions(changes: Changes) -> Run:
    """Runs of tokens of two classes, of which some change."""
    budget = DriftBudget(**{**NOTHING_ELSE, "flip_rate": LIMIT})

    def run(rng: Rng, samples: int) -> list[Check]:
        batch = {"y": _tokens(rng, changes(rng, samples, LIMIT))}
        return _checks(rng, [batch], "classification", budget, "flip_rate")

    return run


def texts(rates: np.ndarray) -> Run:
    """Runs of texts of different lengths, of which some are lost as a whole.

    Args:
        rates: rate of texts that are lost, for each of `LENGTHS`.
    """
    budget = DriftBudget(**{**NOTHING_ELSE, "flip_rate": LIMIT})

    def run(rng: Rng, samples: int) -> list[Check]:
        counts = rng.multinomial(samples, np.full(len(LENGTHS), 1 / len(LENGTHS)))
        batches = [
            {"y": _tokens(rng, np.repeat(rng.random((count, 1)) < rate, length, axis=1))}
            for count, length, rate in zip(counts, LENGTHS, rates, strict=True)
        ]
        return _checks(rng, batches, "classification", budget, "flip_rate")

    return run


def _tokens(rng: Rng, changed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    reference = np.zeros((*changed.shape, 2), np.float32)
    reference[..., 0] = rng.integers(0, 2, changed.shape) * 2 - 1
    return reference, np.where(changed[..., None], -reference, reference)


def flips(outputs: int) -> Run:
    """Runs of outputs with one decision for each sample; one wrong FAIL makes the run wrong."""
    budget = DriftBudget(**{**NOTHING_ELSE, "flip_rate": LIMIT})

    def run(rng: Rng, samples: int) -> list[Check]:
        pairs = {f"y{index}": _tokens(rng, rng.random(samples) < LIMIT) for index in range(outputs)}
        return _checks(rng, [pairs], "classification", budget, "flip_rate")

    return run


def rare_classes(spread: float) -> Run:
    """Fifty classes, each of which loses as many of its decisions as a class may.

    Args:
        spread: 0 for classes of one size, 1 for Zipf's law.
    """
    budget = DriftBudget(**{**NOTHING_ELSE, "flip_rate": 0.5, "class_flip_rate": CLASS_LIMIT})
    shares = np.arange(1, 51) ** -spread
    shares /= shares.sum()

    def run(rng: Rng, samples: int) -> list[Check]:
        truth = rng.choice(50, samples, p=shares)
        lost = rng.random(samples) < CLASS_LIMIT
        # Each class gets what others of its size lose, so that new decisions are at the limit, too.
        other = rng.permutation(truth[lost])
        given = truth.copy()
        given[lost] = np.where(other == truth[lost], (truth[lost] + 1) % 50, other)
        eye = np.eye(50, dtype=np.float32)
        pair = {"y": (eye[truth], eye[given])}
        return _checks(rng, [pair], "classification", budget, "class_flip_rate")

    return run


def wrong_samples(rng: Rng, samples: int) -> list[Check]:
    """Vectors, of which some are off by half of their size; most are off by nearly nothing."""
    budget = DriftBudget(**{**NOTHING_ELSE, "flip_rate": LIMIT, "sample_rel_l2": 0.1})
    reference = rng.standard_normal((samples, 8)).astype(np.float32)
    wrong = rng.random((samples, 1)) < LIMIT
    pair = {"y": (reference, (reference * np.where(wrong, 1.5, 1 + 1e-4)).astype(np.float32))}
    found = _checks(rng, [pair], "regression", budget, "sample_share")
    # Without a wrong sample the PASS states its own bound, and not the limit.
    return [check for check in found if check.measured or (check.upper or 1.0) < LIMIT]


def wrong_columns(rng: Rng, samples: int) -> list[Check]:
    """Four numbers of each sample, each of which is wrong on as many samples as may be."""
    reference = rng.standard_normal((samples, 4))
    wrong = rng.random(reference.shape) < LIMIT
    rounded = reference + 1e-3 * rng.standard_normal(reference.shape)
    # Farther than what counts as wrong, so that the rate is the one of `wrong`.
    candidate = np.where(wrong, reference + rng.choice([-1, 1], reference.shape), rounded)
    pair = {"y": (reference.astype(np.float32), candidate.astype(np.float32))}
    budget = DriftBudget(**{**NOTHING_ELSE, "wrong_samples": LIMIT})
    return _checks(rng, [pair], "regression", budget, "wrong_samples")


def answers(lost: float, gained: float) -> Run:
    """Answers against labels; `lost` is LIMIT larger than `gained`."""
    budget = DriftBudget(**{**NOTHING_ELSE, "accuracy_drop": LIMIT})

    def run(rng: Rng, samples: int) -> list[Check]:
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
        return _checks(rng, [{"y": pair}], "classification", budget, "accuracy_drop", labels)

    return run


def errors(growth: Growth) -> Run:
    """Numbers whose absolute error grows by `growth`, of a mean of LIMIT."""
    budget = DriftBudget(**{**NOTHING_ELSE, "error_increase": LIMIT, "error_floor": None})

    def run(rng: Rng, samples: int) -> list[Check]:
        labels = 10 * rng.standard_normal((samples, 1))
        error = rng.laplace(size=(samples, 1))
        worse = error * (1 + growth(rng, samples)[:, None])
        pair = (labels + error).astype(np.float32), (labels + worse).astype(np.float32)
        return _checks(rng, [{"y": pair}], "regression", budget, "error_increase", labels)

    return run


def spread_growth(rng: Rng, samples: int) -> np.ndarray:
    return LIMIT + 0.1 * rng.standard_normal(samples)


def heavy_growth(share: float) -> Growth:
    """Half of the growth is everywhere, the other half on a share of the samples."""

    def growth(rng: Rng, samples: int) -> np.ndarray:
        few = rng.exponential(LIMIT / 2 / share, samples)
        return LIMIT / 2 + np.where(rng.random(samples) < share, few, 0)

    return growth


def pareto_growth(rng: Rng, samples: int) -> np.ndarray:
    """A Pareto tail of index 2.5: it has a variance, and no third moment."""
    return LIMIT * 1.5 * rng.pareto(2.5, samples)


def _checks(
    rng: Rng,
    batches: Sequence[dict[str, tuple[np.ndarray, np.ndarray]]],
    kind: str,
    budget: DriftBudget,
    name: str,
    labels: np.ndarray | None = None,
) -> list[Check]:
    """The checks of one name, on samples that are all different; labels are of a single batch."""
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
    found = judge(comparison.outputs(), comparison.labels(), budget)
    return [check for check in found.checks if check.name == name]


KINDS: dict[str, Changes] = {
    "independent": independent,
    "samples lost as a whole": all_or_nothing,
    "beta, correlation 0.1": beta(0.1),
    "beta, correlation 0.5": beta(0.5),
    "heavy tail (Pareto 1.5)": heavy_tailed,
    "half in lost samples, half sprinkled": lost_and_sprinkled,
}

# The rate at which texts are lost, if tokens are lost at `LIMIT`.
LENGTHS_LOST = {
    "lost whatever their length": np.full(len(LENGTHS), LIMIT),
    "lost by their length": LIMIT * LENGTHS * LENGTHS.mean() / np.square(LENGTHS).mean(),
}


def scenes() -> Iterator[Scene]:
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
        ("heavy tail (Pareto 2.5)", pareto_growth, SIZES),
    ):
        yield Scene("mean absolute error", f"growth: {name}", errors(growth), sizes=sizes)


def outcome_of(scene: Scene, size: int, runs: int, seed: int = 0) -> Outcome:
    """Runs a scene."""
    found = Outcome(scene, size, runs)
    for rng in map(np.random.default_rng, np.random.SeedSequence([seed, size]).spawn(runs)):
        found.add(scene.run(rng, size))
    return found


def coverage_page(
    title: str, told: str, columns: Sequence[str], found: Sequence[Any], command: str
) -> str:
    """A page on outcomes, each with `name`, `size`, `over` and `row`: the conclusion first."""
    over = [f"- {each.name}, {each.size:,} samples" for each in found if each.over]
    kept = f"{len(found) - len(over)} of {len(found)} rows keep to the stated {STATED:.0%}"
    lines = [f"# {title}", "", *([f"{kept}; these do not:", "", *over] if over else [f"{kept}."])]
    rows = table([columns, *(each.row() for each in found)], words=2)
    return "\n".join([*lines, "", f"Written by `{command}`. {told}", "", rows]) + "\n"


def keep_outcomes(
    outcomes: Iterable[Any], path: Path | None, page: Callable[[list[Any], str], str], options: str
) -> None:
    """Prints outcomes as they come, and writes their page; without a path there is none."""
    found = []
    for each in outcomes:
        found.append(each)
        print(line(each.row()), "over" if each.over else "", flush=True)
    if path is not None:
        write_page(path, page(found, f"python benchmarks/{Path(sys.argv[0]).name}{options}"))


def page(found: Sequence[Outcome], command: str) -> str:
    """The page as Markdown."""
    runs = found[0].runs
    told = (
        f"The truth of each scene lies at the budget: {LIMIT:.0%} of all decisions change, or "
        f"{CLASS_LIMIT:.0%} of the decisions for a class, or errors grow by {LIMIT:.0%}. There, a "
        "PASS and a FAIL are both chance, and reports state that each of them happens in at most "
        f"{STATED:.0%} of all runs. Each row is of {runs:,} runs, and its shares are uncertain by "
        f"up to {uncertainty(runs):.1%}."
    )
    columns = ("statement", "how changes are distributed", "samples", "wrong PASS", "wrong FAIL")
    return coverage_page("How often verdicts are wrong", told, columns, found, command)


def main() -> None:
    """Runs every scene and writes the page; a selection is only printed."""
    given = parser(__doc__)
    given.add_argument("--runs", type=int, default=2000)
    given.add_argument("--group", metavar="REGEX", help="only statements that this fits")
    options = given.parse_args()
    chosen = (one for one in scenes() if re.search(options.group or "", one.group))
    outcomes = (outcome_of(one, size, options.runs) for one in chosen for size in one.sizes)
    runs = "" if options.runs == given.get_default("runs") else f" --runs {options.runs}"
    keep_outcomes(outcomes, None if options.group else PAGE, page, runs)


if __name__ == "__main__":
    main()

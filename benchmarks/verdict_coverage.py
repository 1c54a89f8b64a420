"""Writes docs/verdict-coverage.md: how often verdicts are wrong, in runs whose truth is known.

Run: python benchmarks/verdict_coverage.py [--runs 2000] [--group REGEX]

In each scene a candidate's true rate of changes lies exactly at the budget, or its true loss of a
metric is known. A PASS says that it is at most that, and a FAIL that it is more: at the budget,
each may be said by chance in at most 5 % of all runs (`confidence` is 0.95). A run draws samples,
compares and judges them as `validate` does.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from coverage_labels import label_scenes
from coverage_scenes import CLASS_LIMIT, LIMIT, Scene, verdict_scenes
from pages import line, table, write_page
from scaffold import DOCS, parser

from tfmp.converters.drift.verdict import Verdict

PAGE = DOCS / "verdict-coverage.md"

# The rate at which a statement may be wrong: 1 - DriftBudget().confidence.
STATED = 0.05
COLUMNS = "statement, how changes are distributed, samples, runs, wrong PASS, wrong FAIL".split(
    ", "
)


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

    @property
    def over(self) -> bool:
        """Whether chance alone hardly explains that more runs are wrong than stated."""
        most = self.runs * (STATED + uncertainty(self.runs))
        return any(self.wrong[said] > most for said in self.scene.says)

    def row(self) -> list[str]:
        """Cells of the page's table."""
        shares = [
            f"{self.wrong[said] / self.runs:.1%}" if said in self.scene.says else "not stated"
            for said in (Verdict.PASS, Verdict.FAIL)
        ]
        return [self.scene.group, self.scene.name, f"{self.size:,}", f"{self.runs:,}", *shares]


def uncertainty(runs: int) -> float:
    """Three standard deviations of a share of runs that is `STATED` in the long run."""
    return float(3 * (STATED * (1 - STATED) / runs) ** 0.5)


def outcome_of(scene: Scene, size: int, runs: int, seed: int = 0) -> Outcome:
    """Runs a scene."""
    found = Outcome(scene, size, runs)
    for rng in map(np.random.default_rng, np.random.SeedSequence([seed, size]).spawn(runs)):
        found.wrong[scene.run(rng, size)] += 1
    return found


def page(found: Sequence[Outcome], command: str) -> str:
    """The page as Markdown: the conclusion first."""
    over = [f"- {o.scene.group}: {o.scene.name}, {o.size:,} samples" for o in found if o.over]
    kept = f"{len(found) - len(over)} of {len(found)} rows keep to the stated {STATED:.0%}"
    told = (
        f"The truth of each scene lies at the budget: {LIMIT:.0%} of all decisions change, or "
        f"{CLASS_LIMIT:.0%} of the decisions for a class, or errors grow by {LIMIT:.0%}. Metrics "
        "against labels are of runs drawn from 20,000 samples whose true drop is known: their PASS "
        "is an upper bound below the truth, and their FAIL a lower bound above it. There, a PASS "
        "and a FAIL are both chance, and reports state that each of them happens in at most "
        f"{STATED:.0%} of all runs. The shares of 300 runs are uncertain by up to "
        f"{uncertainty(300):.1%}. Only primary metrics state that a candidate is within a limit."
    )
    return "\n".join(
        [
            "# How often verdicts are wrong",
            "",
            *([f"{kept}; these do not:", "", *over] if over else [f"{kept}."]),
            "",
            f"Written by `{command}`. {told}",
            "",
            table([COLUMNS, *(each.row() for each in found)], words=2),
            "",
        ]
    )


def main() -> None:
    """Runs every scene and writes the page; a selection is only printed."""
    given = parser(__doc__)
    given.add_argument("--runs", type=int, default=2000)
    given.add_argument("--group", metavar="REGEX", help="only statements that this fits")
    options = given.parse_args()
    found = []
    for scene in (*verdict_scenes(), *label_scenes()):
        if re.search(options.group or "", scene.group):
            for size in scene.sizes:
                found.append(outcome_of(scene, size, max(1, options.runs // scene.fewer)))
                print(line(found[-1].row()), "over" if found[-1].over else "", flush=True)
    if not options.group:
        command = f"python benchmarks/verdict_coverage.py --runs {options.runs}"
        write_page(PAGE, page(found, command))


if __name__ == "__main__":
    main()

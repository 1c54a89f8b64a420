"""SweepReport: a profile over batch sizes, with the largest that fit and the crossover points."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import ClassVar

from tfmp.machine import FEWEST_FOR_INTERVAL
from tfmp.profiling.batches import BatchLimit
from tfmp.profiling.steps import COLUMNS, StepProfile, StepReport
from tfmp.shared.html_page import Bar, scaled
from tfmp.shared.reporting import Picture, Section, Table

FASTER, SLOWER, ALIKE = "faster", "slower", "alike"

_MODES = {"train": "training", "predict": "predict"}


@dataclass(frozen=True)
class Crossover:
    """One way to compute against another, over sizes.

    Attributes:
        variant: the way that is judged.
        base: the way that it is compared with.
        where: the mode.
        sizes: the sizes at which both ran, the smallest first.
        found: for each size "faster", "slower" or, within noise, "alike".
        speedups: how many times faster than the base, for each size.
    """

    DERIVED: ClassVar[tuple[str, ...]] = ("faster_from", "text")

    variant: str
    base: str
    where: str
    sizes: tuple[int, ...]
    found: tuple[str, ...]
    speedups: tuple[float, ...] = ()

    @property
    def faster_from(self) -> int | None:
        """The smallest size from which on the variant is faster at all larger ones."""
        slow = [place for place, kind in enumerate(self.found) if kind != FASTER]
        first = slow[-1] + 1 if slow else 0
        return self.sizes[first] if first < len(self.sizes) else None

    @property
    def text(self) -> str:
        """The sizes at which it is faster, and slower, in a sentence."""
        fast, slow = self._sizes(FASTER), self._sizes(SLOWER)
        said = []
        if fast and fast[0] == self.faster_from and len(self.sizes) > 1:
            said = [f"faster than {self.base} from batch {fast[0]} on"]
        elif fast:
            said = [f"faster than {self.base} at batch {', '.join(map(str, fast))}"]
        if fast and (gain := max(self.speedups, default=0.0)) > 1:
            said[0] += f" (up to {gain:.2f} times)"
        if slow:
            than = "" if fast else f" than {self.base}"
            said.append(f"slower{than} at batch {', '.join(map(str, slow))}")
        judged = " and ".join(said) or f"neither faster nor slower than {self.base} beyond noise"
        return f"{self.where}: {self.variant} is {judged}"

    def _sizes(self, kind: str) -> list[int]:
        return [size for size, each in zip(self.sizes, self.found, strict=True) if each == kind]


def _judged(row: StepProfile, base: StepProfile) -> str:
    low, high = row.speedup_range(base) or (0.0, math.inf)
    return FASTER if low > 1 else SLOWER if high < 1 else ALIKE


@dataclass(frozen=True)
class SweepReport(StepReport):
    """The result of `profile_sweep`; it prints as the crossover points and tables.

    Attributes:
        rows: each policy at each size, by mode and batch size.
        largest: by variant, the largest batch that fits, if it was searched.
        limit: the limit of memory, in words.
        notes: parts that could not be measured, with the reason.
    """

    SCHEMA = "tfmp.sweep/2"
    DERIVED = ("crossovers",)

    rows: tuple[StepProfile, ...]
    largest: Mapping[str, BatchLimit] = field(default_factory=dict)
    limit: str = ""
    notes: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        """The model and its device."""
        return f"“{self.model}” over sizes, on {self.device}"

    def groups(self) -> dict[str, list[StepProfile]]:
        """The rows of each mode, by its name in words."""
        found: dict[str, list[StepProfile]] = {}
        for row in self.rows:
            found.setdefault(_MODES[row.mode], []).append(row)
        return found

    @property
    def crossovers(self) -> tuple[Crossover, ...]:
        """Each policy against float32, and XLA against none, over the sizes of each group."""
        found = []
        for where, rows in self.groups().items():
            ran = {(row.variant, row.batch_size): row for row in rows if row.step}
            for variant, base in _pairs(rows):
                sizes = sorted(size for name, size in ran if name == variant)
                both = tuple(size for size in sizes if (base, size) in ran)
                pairs = [(ran[variant, size], ran[base, size]) for size in both]
                judged = tuple(_judged(*pair) for pair in pairs)
                gains = tuple(row.speedup(rival) or 0.0 for row, rival in pairs)
                if both:
                    found.append(Crossover(variant, base, where, both, judged, gains))
        return tuple(found)

    def sections(self, on_page: bool = True) -> list[Section]:
        """As in `Report`: crossovers, the largest sizes, every size, evidence."""
        found = tuple(each.text for each in self.crossovers)
        if not found:
            found = ("One policy was measured: there is nothing to compare it with.",)
        elif self.rounds < FEWEST_FOR_INTERVAL:
            few = f"Too few rounds to say which policy is faster: measure {FEWEST_FOR_INTERVAL} or"
            found = (f"{few} more.",)
        limit = f"The limit of memory is {self.limit}."
        bounded = self.largest or any(row.step is None for row in self.rows)
        return [
            Section("Conclusion", lines=found),
            Section(
                "The largest that fit",
                tables=(self._largest(),),
                lines=(limit,) if bounded else (),
                quiet=(
                    "Each size was tried in a process of its own: it was doubled until a step did "
                    "not fit, then narrowed down to a sixteenth.",
                )
                * bool(self.largest),
            ),
            Section("Every size", tables=(self._rows(),), pictures=tuple(self._pictures())),
            self.evidence(map("note: {}".format, self.notes), {"Limit of memory": self.limit}),
        ]

    def _pictures(self) -> Iterator[Picture]:
        """Throughput of each group over sizes."""
        for where, group in self.groups().items():
            bars = [
                Bar(
                    f"batch {row.batch_size}, {row.variant}",
                    f"{row.samples_per_second:,.0f}",
                    row.samples_per_second or 0.0,
                    bound=row.batch_size / row.step.low,
                )
                for row in sorted(group, key=attrgetter("batch_size"))
                if row.step
            ]
            told = "the thin line goes on to the fastest tenth. Longer is better."
            caption = f"{where}: samples a second at the median of {self.rounds} rounds; {told}"
            yield Picture(caption, scaled(bars))

    def _rows(self) -> Table:
        rows = tuple(
            (_MODES[row.mode], f"{row.batch_size}", row.variant, *row.cells()) for row in self.rows
        )
        return Table(("mode", "batch", "policy", *COLUMNS), rows, words=("mode", "policy"))

    def _largest(self) -> Table:
        rows = tuple(
            (variant, str(limit), limit.memory.text if limit.memory else "-")
            for variant, limit in self.largest.items()
        )
        return Table(("policy", "largest batch", "memory"), rows, words=("policy",))


def _pairs(rows: Sequence[StepProfile]) -> list[tuple[str, str]]:
    """(variant, base): policies against float32 under the same compiler, then XLA against none."""
    first: dict[str, StepProfile] = {}
    for row in rows:
        first.setdefault(row.variant, row)
    found = []
    for row in first.values():
        alike = [other for other in first.values() if other.xla is row.xla]
        # The last float32 is the one with TF32, where there are two: the real rival of 16 bits.
        wide = [other for other in alike if other.policy == "float32"]
        base = wide[-1] if wide else alike[0]
        if row.policy != base.policy:
            found.append((row.variant, base.variant))
    for row in first.values():
        if row.xla:
            found.append((row.variant, row.variant.replace(", XLA", ", no XLA")))
    return found

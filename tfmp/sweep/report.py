"""SweepReport: speed and memory at every size, the largest sizes, and the crossover points."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfmp.machine import Device, Memory, Timing, seconds_text
from tfmp.profiling import BatchLimit, Variant
from tfmp.shared.report_files import JsonObject, json_text, save_report
from tfmp.shared.wording import table
from tfmp.sweep.crossover import Crossover, crossover

if TYPE_CHECKING:
    from tfmp.sweep.job import Cell, Job

SCHEMA = "tfmp.sweep/1"
SUFFIXES = (".json", ".html")

_MODES = {"train": "training", "predict": "predict"}


@dataclass(frozen=True)
class SweepRow:
    """One policy at one size.

    Attributes:
        mode: "train" or "predict".
        variant: the policy, with "(TF32)" if float32 products ran as TF32, and "XLA" or "no XLA".
        policy: the policy.
        xla: whether XLA compiled the step; None if that was the model's choice.
        batch_size: samples in a step.
        model_size: argument of the function that built the model; None without one.
        parameters: number of the model's weights.
        step: seconds of a step, one measurement for each round; None if no step could be run.
        steps: number of steps in each timing.
        compile_s: seconds of tracing and compiling.
        memory: weights, optimizer state, a batch, and the rise of a step.
        error: the reason why no step could be run; empty if it ran.
    """

    mode: str
    variant: str
    policy: str
    xla: bool | None
    batch_size: int
    model_size: int | None
    parameters: int = 0
    step: Timing | None = None
    steps: int = 0
    compile_s: float = 0.0
    memory: Memory | None = None
    error: str = ""

    @classmethod
    def of(cls, job: "Job", variant: Variant, cell: "Cell") -> "SweepRow":
        """The row of a measured cell."""
        return cls(
            *(job.mode, str(variant), variant.policy, variant.xla, job.batch_size, job.model_size),
            *(cell.parameters, cell.step, cell.steps, cell.compile_s, cell.memory, cell.error),
        )

    @property
    def samples_per_second(self) -> float | None:
        """Throughput at the median step."""
        return self.batch_size / self.step.median if self.step else None

    def to_dict(self) -> JsonObject:
        """Plain JSON types."""
        return {
            **asdict(self),
            "step": self.step.to_dict() if self.step else None,
            "samples_per_second": self.samples_per_second,
        }


@dataclass(frozen=True)
class Largest:
    """The largest size that fits under a variant.

    Attributes:
        what: "batch" or "model".
        mode: "train" or "predict".
        variant: as in `SweepRow`.
        limit: the size, and the search for it.
    """

    what: str
    mode: str
    variant: str
    limit: BatchLimit


@dataclass(frozen=True)
class SweepReport:
    """The result of `profile_sweep`; it prints as tables and the crossover points.

    Attributes:
        model: name of the model.
        device: the device that it ran on.
        backend: the Keras backend.
        environment: versions by package, and the processor.
        rounds: number of timings of each row.
        rows: each policy at each size, by mode, model size and batch size.
        largest: the largest sizes that fit, if they were searched.
        limit: the limit of memory, in words.
        notes: parts that could not be measured, with the reason.
    """

    model: str
    device: Device
    backend: str
    environment: Mapping[str, str]
    rounds: int
    rows: tuple[SweepRow, ...]
    largest: tuple[Largest, ...] = ()
    limit: str = ""
    notes: tuple[str, ...] = ()

    @property
    def axis(self) -> str:
        """The size that pictures have on their axis: "batch", or "model size" for one batch."""
        sized = len({row.model_size for row in self.rows}) > 1
        return (
            "model size" if sized and len({row.batch_size for row in self.rows}) == 1 else "batch"
        )

    def groups(self) -> dict[str, list[SweepRow]]:
        """The rows of each mode and fixed size, by their place in words."""
        several = self.axis == "batch" and len({row.model_size for row in self.rows}) > 1
        found: dict[str, list[SweepRow]] = {}
        for row in self.rows:
            where = _MODES[row.mode] + (f", model size {row.model_size}" if several else "")
            found.setdefault(where, []).append(row)
        return found

    def size_of(self, row: SweepRow) -> int:
        """The size of a row on the axis."""
        return row.batch_size if self.axis == "batch" else row.model_size or 0

    @property
    def crossovers(self) -> tuple[Crossover, ...]:
        """Each policy against float32, and XLA against none, over the sizes of each group."""
        found = []
        for where, rows in self.groups().items():
            steps: dict[str, dict[int, Timing]] = {}
            for row in rows:
                if row.step is not None:
                    steps.setdefault(row.variant, {})[self.size_of(row)] = row.step
            for variant, base in _pairs(rows):
                sizes = sorted(steps.get(variant, {}).keys() & steps.get(base, {}).keys())
                pairs = [(size, steps[base][size], steps[variant][size]) for size in sizes]
                if pairs:
                    found.append(crossover(variant, base, where, self.axis, pairs))
        return tuple(found)

    def to_dict(self) -> JsonObject:
        """The whole report, as plain JSON types."""
        return {
            "schema": SCHEMA,
            "model": self.model,
            "device": self.device.to_dict(),
            "backend": self.backend,
            "environment": dict(self.environment),
            "rounds": self.rounds,
            "rows": [row.to_dict() for row in self.rows],
            "largest": [{**asdict(each), "text": str(each.limit)} for each in self.largest],
            "limit": self.limit,
            "crossovers": [
                {**asdict(each), "faster_from": each.faster_from, "text": str(each)}
                for each in self.crossovers
            ],
            "notes": list(self.notes),
        }

    def cells(self) -> list[tuple[str, ...]]:
        """The table of rows; its first row is the heading."""
        sized = any(row.model_size is not None for row in self.rows)
        header = ["mode", "batch", "policy", "step", "spread", "samples/s", "memory", "compile"]
        if sized:
            header[1:1] = ["model size", "weights"]
        found = [tuple(header)]
        for row in self.rows:
            cells = [_MODES[row.mode], f"{row.batch_size}", row.variant]
            if sized:
                cells[1:1] = [f"{row.model_size}", f"{row.parameters:,}" if row.parameters else "-"]
            if row.step is None:
                cells += [f"did not run: {row.error}", *[""] * 4]
            else:
                cells += [
                    seconds_text(row.step.median),
                    f"{seconds_text(row.step.low)} to {seconds_text(row.step.high)}",
                    f"{row.samples_per_second or 0:,.0f}",
                    row.memory.text if row.memory else "-",
                    seconds_text(row.compile_s),
                ]
            found.append(tuple(cells))
        return found

    def largest_cells(self) -> list[tuple[str, ...]]:
        """The table of the largest sizes; its first row is the heading."""
        rows: list[tuple[str, ...]] = [("largest", "mode", "policy", "size", "memory")]
        for each in self.largest:
            memory = each.limit.memory.text if each.limit.memory else "-"
            rows.append((each.what, _MODES[each.mode], each.variant, str(each.limit), memory))
        return rows

    def __str__(self) -> str:
        parts = [table(self.cells()), ""]
        if self.largest:
            parts += [table(self.largest_cells()), ""]
        if self.largest or any(row.step is None for row in self.rows):
            parts += [f"The limit of memory is {self.limit}.", ""]
        parts += [f"note: {note}" for note in self.notes]
        return "\n".join([*parts, *map(str, self.crossovers)]).rstrip()

    def _repr_html_(self) -> str:
        """The page, in a notebook."""
        from tfmp.shared.html_page import framed
        from tfmp.sweep.page import to_html

        return framed(f"{self.model} over sizes, on {self.device}", to_html(self))

    def save(self, path: str | Path) -> Path:
        """Writes the report: `.json` as data, `.html` as a self-contained page.

        Raises:
            ValueError: the path has another suffix, or the file cannot be written.
        """
        from tfmp.sweep.page import to_html

        renderers = {".json": lambda: json_text(self.to_dict()), ".html": lambda: to_html(self)}
        return save_report(path, renderers)


def _pairs(rows: list[SweepRow]) -> list[tuple[str, str]]:
    """(variant, base): policies against float32 under the same compiler, then XLA against none."""
    first: dict[str, SweepRow] = {}
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

"""ProfileReport: the cost of a training step under several policies, and whether 16 bits pay."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from tfmp.machine import (
    DEVICE_MEMORY,
    FEWEST_FOR_INTERVAL,
    PROCESS_NOISE_BYTES,
    bytes_text,
    seconds_text,
)
from tfmp.precision import has_tensor_cores, is_narrow
from tfmp.profiling.baseline import (
    SCHEMA,
    TOLERANCE,
    BaselineComparison,
    compare,
    read_baseline,
)
from tfmp.profiling.layers import LayerProfile
from tfmp.profiling.steps import COLUMNS, StepProfile, StepReport
from tfmp.roofline import Roofline
from tfmp.shared.html_page import Bar, scaled
from tfmp.shared.report_files import JsonObject, plain
from tfmp.shared.reporting import Picture, Section, Table

# A change of policy is worth its trouble from these gains on.
WORTHWHILE_SPEEDUP = 1.1
WORTHWHILE_MEMORY = 0.8

# An obstacle is named if it takes at least this share of the time.
_MUCH = 0.3
_MOST_NAMED = 3

# More layers than these are not read at a glance, on a terminal and on a page.
_MOST_PRINTED, _MOST_ROWS = 20, 200


@dataclass(frozen=True)
class ProfileReport(StepReport):
    """The result of `profile_training`; it prints as an answer and two tables.

    Attributes:
        steps_per_round: number of steps in a timing.
        variants: the training step under each variant.
        layers: each layer under each variant; empty if layers were not measured.
        notes: parts that could not be measured, with the reason.
        log_dir: folder of the traces for TensorBoard; None if there are no traces.
        against: the comparison with an earlier profile; None if there was none.
        gpu_note: the reason why the card's use was not watched; empty if it was.
        roofline: the limits of the device; None if not measured.
    """

    SCHEMA = SCHEMA
    DERIVED = ("answer", "worth_it", "held_back_by")

    steps_per_round: int
    variants: tuple[StepProfile, ...]
    layers: tuple[LayerProfile, ...] = ()
    notes: tuple[str, ...] = field(default=())
    log_dir: str | None = None
    against: BaselineComparison | None = None
    gpu_note: str = ""
    roofline: Roofline | None = None

    @property
    def baseline(self) -> StepProfile | None:
        """The variant that others are compared with: the fastest float32, or the first that ran."""
        ran = [row for row in self.variants if row.step is not None]
        float32 = [row for row in ran if row.policy == "float32"]
        fastest = min(float32, key=lambda row: row.step.median if row.step else 0, default=None)
        return fastest or next(iter(ran), None)

    def memory_ratio(self, row: StepProfile) -> float | None:
        """Memory as a share of the baseline's; None if the difference may be noise."""
        base = self.baseline
        if base is None or base.memory is None or row.memory is None:
            return None
        return row.memory.share_of(base.memory)

    @property
    def best(self) -> StepProfile | None:
        """The fastest variant that computes in 16 bits, if there is a wider one beside it."""
        if self.baseline is None or is_narrow(self.baseline.policy):
            return None
        narrow = [row for row in self.variants if row.step and is_narrow(row.policy)]
        return max(narrow, key=lambda row: row.speedup(self.baseline) or 0.0, default=None)

    @property
    def worth_it(self) -> bool:
        """Whether 16 bits were seen to save a worthwhile amount of time or memory."""
        best = self.best
        between = best.speedup_range(self.baseline) if best else None
        if best is None or between is None:
            return False
        speedup = best.speedup(self.baseline) or 0.0
        if speedup >= WORTHWHILE_SPEEDUP and between[0] > 1:
            return True
        smaller = (self.memory_ratio(best) or 1) <= WORTHWHILE_MEMORY
        return smaller and between[1] > 1 / WORTHWHILE_SPEEDUP

    @property
    def answer(self) -> str:
        """One line that says whether 16 bits are worth it, with the obstacles."""
        best, base = self.best, self.baseline
        if base is None:
            return "Nothing could be measured: no variant ran"
        if best is None:
            other = "float32" if is_narrow(base.policy) else "16-bit"
            return f"No {other} policy ran, so there is nothing to compare {base.variant} with"
        held = self.held_back_by
        found = self._gain(best, base)
        return f"{found}. Held back by {', '.join(held)}" if held else found

    def _gain(self, best: StepProfile, base: StepProfile) -> str:
        speedup, memory = best.speedup(base) or 0.0, self.memory_ratio(best)
        between = best.speedup_range(base)
        saved = "" if memory is None else f" and {memory:.2g} times the memory"
        if between is None:
            n = self.rounds
            return (
                f"Too few rounds to say whether {best.variant} is worth it on {self.device.name}: "
                f"{speedup:.2f} times the speed{saved} of {base.variant} in {n}; measure "
                f"{FEWEST_FOR_INTERVAL} or more"
            )
        is_it = "is worth it" if self.worth_it else "is not worth it"
        found = (
            f"{best.variant} {is_it} on {self.device.name}: {speedup:.2f} times the speed "
            f"({between[0]:.2f} to {between[1]:.2f}){saved} of {base.variant}"
        )
        if between[0] < 1 < between[1] and speedup >= WORTHWHILE_SPEEDUP:
            found += ", which may be noise: measure more rounds"
        return found

    @property
    def held_back_by(self) -> tuple[str, ...]:
        """The obstacles that keep the best 16-bit variant from being faster, the largest first."""
        return tuple(_obstacles(self, self.best)) if self.best else ()

    def compared_with(
        self, baseline: str | Path | JsonObject, tolerance: float = TOLERANCE
    ) -> "ProfileReport":
        """This report with a comparison with an earlier one, in `against`.

        Args:
            baseline: the JSON file of the earlier report, or its content as `read_baseline` gives
                it.
            tolerance: share by which a step may take longer, or need more memory.

        Raises:
            ValueError: the file is no report, or of another device, backend or batch size, or has
                none of the policies of this one.
        """
        then = read_baseline(baseline) if isinstance(baseline, str | Path) else baseline
        return replace(self, against=compare(then, self.to_dict(), tolerance))

    def to_dict(self) -> JsonObject:
        """The whole report, as plain JSON types."""
        variants = [
            {
                **plain(row),
                "speedup": row.speedup(self.baseline),
                "speedup_range": row.speedup_range(self.baseline),
                "memory_ratio": self.memory_ratio(row),
            }
            for row in self.variants
        ]
        return {**super().to_dict(), "variants": variants}

    @property
    def main(self) -> StepProfile | None:
        """The variant whose layers are shown: the best 16-bit one, or the baseline."""
        return self.best or self.baseline

    @property
    def heading(self) -> str:
        """Of the page."""
        return f"Training “{self.model}” in each precision"

    @property
    def conclusion(self) -> str:
        """The answer, after the one of the comparison with an earlier profile."""
        return f"{self.against.answer}\n{self.answer}" if self.against else self.answer

    @property
    def signal(self) -> tuple[str, str]:
        """PASS if 16 bits are worth it."""
        if self.worth_it:
            return "PASS", "✓ worth it"
        if self.best is None:
            return "INCONCLUSIVE", "? nothing to compare"
        known = self.best.speedup_range(self.baseline)
        return "INCONCLUSIVE", "✗ not worth it" if known else "? too few rounds"

    def sections(self, on_page: bool = True) -> list[Section]:
        """As in `Report`: steps, layers, limits of the device, changes, evidence."""
        main, most = self.main, _MOST_ROWS if on_page else _MOST_PRINTED
        found = [self._steps()]
        if self.layers:
            found.append(self._layers(most))
        if self.roofline and main:
            found.append(self.roofline.section(main.variant, most))
        if self.against:
            found.append(self.against.section())
        lines = [f"GPU in {row.variant}: {row.gpu}" for row in self.variants if row.gpu]
        lines += [f"note: {note}" for note in (*self.notes, self.gpu_note) if note]
        return [*found, self.evidence(lines, {"Traces": self.log_dir} if self.log_dir else {})]

    def _steps(self) -> Section:
        base = self.baseline.variant if self.baseline else "nothing"
        bars = [
            Bar(
                row.variant,
                f"{seconds_text(row.step.median)}, {row.speedup(self.baseline) or 0:.2f}x",
                row.step.median,
                bound=row.step.high,
                verdict=self._colour(row),
            )
            for row in self.variants
            if row.step
        ]
        return Section(
            "Steps",
            tables=(self.step_table(),),
            pictures=(
                Picture(f"Seconds of one training step; speed against {base}", scaled(bars)),
            ),
            quiet=(
                f"A step has {max(row.batch_size for row in self.variants):,} samples. The bar is "
                f"the median of {self.rounds} rounds of {self.steps_per_round} steps; the thin "
                "line goes on to the slowest tenth. The policies took turns, so that drift of the "
                "machine hit them alike.",
                "Memory is that of weights, optimizer state, one batch, and the additional memory "
                f"of a step. {self._memory_note()}",
            ),
        )

    def _colour(self, row: StepProfile) -> str | None:
        """Of a 16-bit variant: a worthwhile gain, a loss, or None."""
        gain = row.speedup(self.baseline)
        if gain is None or row is self.baseline or not is_narrow(row.policy):
            return None
        if gain >= WORTHWHILE_SPEEDUP:
            return "PASS"
        return "FAIL" if gain < 1 / WORTHWHILE_SPEEDUP else None

    def _memory_note(self) -> str:
        """Where the bytes come from, and how far they are noise."""
        sources = sorted({row.memory.source for row in self.variants if row.memory})
        told = [f"Its bytes are {' and '.join(sources)}."] if sources else []
        if set(sources) - {DEVICE_MEMORY}:
            told.append(f"Differences below {bytes_text(PROCESS_NOISE_BYTES)} may be noise.")
        return " ".join(told)

    def step_table(self) -> Table:
        """The table of variants."""
        heading = ("policy", *COLUMNS[:2], "speed", *COLUMNS[2:], "loss")
        rows = []
        for row in self.variants:
            if row.step is None:  # a note says why
                rows.append((row.variant, "did not run", *[""] * (len(heading) - 2)))
                continue
            cells = row.cells()
            cells[2:2] = [f"{row.speedup(self.baseline) or 0:.2f}x"]
            loss = "-" if row.loss is None else f"{row.loss:.4g}"
            rows.append((row.variant, *cells, loss))
        return Table(heading, tuple(rows), words=("policy",))

    def _layers(self, most: int) -> Section:
        """The most expensive layers."""
        names = [row.variant for row in self.variants if row.step]
        by_cost = sorted(self.layers, key=lambda one: -max(c.seconds for c in one.costs.values()))
        rows = tuple(
            (
                layer.path,
                layer.layer_class,
                *(
                    f"{seconds_text(cost.seconds)} ({cost.share:.0%})"
                    for cost in map(layer.costs.__getitem__, names)
                ),
                self._tensor_core_text(layer),
            )
            for layer in by_cost[:most]
        )
        words = ("layer", "class", "Tensor Cores")
        return Section(
            "Layers",
            tables=(Table((*words[:2], *names, words[2]), rows, words=words),),
            quiet=(
                "The compiled forward and backward pass of each layer by itself, on the shapes "
                "that it gets.",
                *[f"{len(self.layers) - most} more cost less."] * (len(self.layers) > most),
            ),
        )

    def _tensor_core_text(self, layer: LayerProfile) -> str:
        row = self.main
        if row is None or row.variant not in layer.costs:
            return "-"
        path = layer.costs[row.variant].tensor_cores
        if not path.eligible:
            return f"no: {path.reason}"
        used = row.kernels.layers.get(layer.path) if row.kernels else None
        text = "could" if used is None else f"used {used:.0%} of its time"
        return f"{text}; {path.reason}" if path.reason else text


def _obstacles(report: ProfileReport, best: StepProfile) -> list[str]:
    found = []
    if not has_tensor_cores(report.device):
        if report.worth_it:  # a processor that multiplies in bfloat16 can be faster without them
            return []
        if report.device.kind == "cpu":
            return ["this CPU, which has no Tensor Cores (a GPU's gain cannot be measured here)"]
        return [f"{report.device.name}, which has no Tensor Cores"]
    costs = [(layer, layer.costs[best.variant]) for layer in report.layers]
    layers_time = sum(cost.seconds for _, cost in costs)
    if layers_time and best.step and layers_time < (1 - _MUCH) * best.step.median:
        share = 1 - layers_time / best.step.median
        found.append(
            f"{share:.0%} of the step outside its layers (starting kernels, loss, optimizer): "
            "try a larger batch or jit_compile=True"
        )
    without = [(layer, cost) for layer, cost in costs if not cost.tensor_cores.eligible]
    share = sum(cost.share for _, cost in without)
    if share >= _MUCH:
        without.sort(key=lambda pair: pair[1].share, reverse=True)
        names = ", ".join(layer.path for layer, _ in without[:_MOST_NAMED])
        found.append(f"{share:.0%} of layer time without a Tensor Core path ({names})")
    return found

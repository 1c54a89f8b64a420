"""ProfileReport: the cost of a training step under several policies, and whether 16 bits pay."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from tfmp.machine import (
    FEWEST_FOR_INTERVAL,
    Device,
    GpuUse,
    Memory,
    Timing,
    median_interval,
    paired_ratio,
    ratios,
)
from tfmp.precision import has_tensor_cores, is_narrow
from tfmp.profiling.baseline import (
    SCHEMA,
    TOLERANCE,
    Baseline,
    BaselineComparison,
    read_baseline,
)
from tfmp.profiling.batches import BatchLimit
from tfmp.profiling.kernels import KernelUse
from tfmp.profiling.layers import LayerProfile
from tfmp.roofline import Roofline
from tfmp.shared.report_files import JsonObject, json_number, json_text, save_report
from tfmp.shared.wording import table

SUFFIXES = (".json", ".html")

# A change of policy is worth its trouble from these gains on.
WORTHWHILE_SPEEDUP = 1.1
WORTHWHILE_MEMORY = 0.8

# An obstacle is named if it takes at least this share of the time.
_MUCH = 0.3
_MOST_NAMED = 3


@dataclass(frozen=True)
class StepProfile:
    """One training step under one variant.

    Attributes:
        variant: the policy, with "(TF32)" if float32 products ran as TF32.
        policy: the policy.
        step: seconds of a step, one measurement for each round; None if no step could be run.
        batch_size: samples in a step.
        compile_s: seconds of tracing and compiling: the first step's time without a usual one's.
        memory: memory that training needs: weights, optimizer state, a batch, and a step's rise.
        loss: mean loss over the steps of the last round.
        total_steps: number of all steps that were taken until then.
        skipped_steps: steps that the loss-scale optimizer did not apply.
        kept_float32: number of layers that the plan keeps in float32.
        largest_batch: the largest batch that fits, if it was searched.
        kernels: the kernels that the profiler saw, on a GPU with xprof.
        gpu: the card's use during some seconds of these steps; None if it was not watched.
        error: the reason why no step could be run; empty if it ran.
    """

    variant: str
    policy: str
    step: Timing | None = None
    batch_size: int = 0
    compile_s: float = 0.0
    memory: Memory | None = None
    loss: float | None = None
    total_steps: int = 0
    skipped_steps: int = 0
    kept_float32: int = 0
    largest_batch: BatchLimit | None = None
    kernels: KernelUse | None = None
    gpu: GpuUse | None = None
    error: str = ""

    @property
    def samples_per_second(self) -> float | None:
        """Throughput at the median step."""
        return self.batch_size / self.step.median if self.step else None

    def to_dict(self) -> JsonObject:
        """Plain JSON types."""
        return {
            **asdict(self),
            "loss": json_number(self.loss),
            "step": self.step.to_dict() if self.step else None,
            "samples_per_second": self.samples_per_second,
        }


@dataclass(frozen=True)
class ProfileReport:
    """The result of `profile_training`; it prints as two tables and an answer.

    Attributes:
        model: name of the model.
        device: the device that it trained on.
        backend: the Keras backend.
        environment: versions by package, and the processor.
        rounds, steps_per_round: number of timings of each variant, and of steps in a timing.
        variants: the training step under each variant.
        layers: each layer under each variant; empty if layers were not measured.
        notes: parts that could not be measured, with the reason.
        log_dir: folder of the traces for TensorBoard; None if there are no traces.
        against: the comparison with an earlier profile; None if there was none.
        gpu_note: the reason why the card's use was not watched; empty if it was.
        roofline: the limits of the device and of the input pipeline; None if not measured.
    """

    model: str
    device: Device
    backend: str
    environment: Mapping[str, str]
    rounds: int
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
        return min(float32, key=_median) if float32 else next(iter(ran), None)

    def speedup(self, row: StepProfile) -> float | None:
        """How many times faster than the baseline a variant is, as the median over rounds."""
        base = self.baseline
        if base is None or base.step is None or row.step is None:
            return None
        return paired_ratio(base.step, row.step)

    def speedup_range(self, row: StepProfile) -> tuple[float, float] | None:
        """The interval that holds the true median of the speed-up with 95 % confidence.

        None for a variant that did not run, and for fewer than six rounds.
        """
        base = self.baseline
        if base is None or base.step is None or row.step is None:
            return None
        return median_interval(ratios(base.step, row.step))

    def memory_ratio(self, row: StepProfile) -> float | None:
        """Memory as a share of the baseline's; None if the difference may be noise."""
        base = self.baseline
        if base is None or base.memory is None or row.memory is None:
            return None
        return row.memory.share_of(base.memory)

    @property
    def best(self) -> StepProfile | None:
        """The fastest variant that computes in 16 bits."""
        narrow = [row for row in self.variants if row.step and is_narrow(row.policy)]
        return max(narrow, key=lambda row: self.speedup(row) or 0.0, default=None)

    @property
    def is_open(self) -> bool:
        """Whether there are too few rounds to say whether 16 bits are worth it."""
        return self.best is not None and self.speedup_range(self.best) is None

    @property
    def worth_it(self) -> bool:
        """Whether 16 bits were seen to save a worthwhile amount of time or memory."""
        best = self.best
        speedup, between = (self.speedup(best), self.speedup_range(best)) if best else (None, None)
        if best is None or speedup is None or between is None:
            return False
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
            return f"No 16-bit policy ran, so there is nothing to compare {base.variant} with"
        held = self.held_back_by
        found = self._gain(best, base)
        return f"{found}; held back by {', '.join(held)}" if held else found

    def _gain(self, best: StepProfile, base: StepProfile) -> str:
        speedup, memory = self.speedup(best) or 0.0, self.memory_ratio(best)
        between = self.speedup_range(best)
        saved = "" if memory is None else f" and {memory:.2g} times the memory"
        if between is None:
            n = self.rounds
            rounds = "1 round, which gives" if n == 1 else f"{n} rounds, which give"
            return (
                f"Whether {best.variant} is worth it on {self.device.name} is open: {speedup:.2f} "
                f"times the speed{saved} of {base.variant} in {rounds} no interval: measure "
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
        best = self.best
        if best is None:
            return ()
        limits = self.roofline.obstacles(best.variant) if self.roofline else []
        return (*limits, *_obstacles(self, best))

    def compared_with(
        self, baseline: str | Path | Baseline, tolerance: float = TOLERANCE
    ) -> "ProfileReport":
        """This report with a comparison with an earlier one, in `against`.

        Args:
            baseline: the JSON file of the earlier report, or its content as `read_baseline` gives
                it.
            tolerance: share by which a step may take longer, or need more memory.

        Raises:
            ValueError: the file is no report, or of another device, backend or batch size, or has
                none of the policies of this one, or one of the two has too few rounds.
        """
        if not isinstance(baseline, Baseline):
            baseline = read_baseline(baseline)
        now = Baseline(self.to_dict(), "this run")
        return replace(self, against=baseline.comparison(now, tolerance))

    def to_dict(self) -> JsonObject:
        """The whole report, as plain JSON types."""
        return {
            "schema": SCHEMA,
            "answer": self.answer,
            "worth_it": self.worth_it,
            "held_back_by": list(self.held_back_by),
            "model": self.model,
            "device": self.device.to_dict(),
            "backend": self.backend,
            "environment": dict(self.environment),
            "rounds": self.rounds,
            "steps_per_round": self.steps_per_round,
            "variants": [
                {
                    **row.to_dict(),
                    "speedup": self.speedup(row),
                    "speedup_range": self.speedup_range(row),
                    "memory_ratio": self.memory_ratio(row),
                }
                for row in self.variants
            ],
            "layers": [asdict(layer) for layer in self.layers],
            "notes": list(self.notes),
            "log_dir": self.log_dir,
            "against": self.against.to_dict() if self.against else None,
            "gpu_note": self.gpu_note,
            "roofline": self.roofline.to_dict() if self.roofline else None,
        }

    def __str__(self) -> str:
        from tfmp.profiling.tables import layer_cells, roofline_lines, step_cells

        parts = [table(step_cells(self)), ""]
        if self.layers:
            parts += [table(layer_cells(self)), ""]
        if self.roofline:
            parts += roofline_lines(self, self.roofline)
        parts += [f"GPU in {row.variant}: {row.gpu}" for row in self.variants if row.gpu]
        parts += [f"note: {note}" for note in (*self.notes, self.gpu_note) if note]
        parts.append(self.answer)
        return "\n".join([*parts, "", str(self.against)] if self.against else parts)

    def _repr_html_(self) -> str:
        """The page, in a notebook."""
        from tfmp.profiling.page import to_html
        from tfmp.shared.html_page import framed

        return framed(self.answer, to_html(self))

    def save(self, path: str | Path) -> Path:
        """Writes the report: `.json` as data, `.html` as a self-contained page.

        Raises:
            ValueError: the path has another suffix, or the file cannot be written.
        """
        from tfmp.profiling.page import to_html

        renderers = {".json": lambda: json_text(self.to_dict()), ".html": lambda: to_html(self)}
        return save_report(path, renderers)


def _median(row: StepProfile) -> float:
    return row.step.median if row.step else float("inf")


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
    padded = [(layer, c) for layer, c in costs if c.tensor_cores.eligible and c.tensor_cores.reason]
    share = sum(cost.share for _, cost in padded)
    if share >= _MUCH:
        padded.sort(key=lambda pair: pair[1].share, reverse=True)
        layer, cost = padded[0]
        sizes = f"{layer.path}: {cost.tensor_cores.reason}"
        found.append(f"{share:.0%} in sizes that need padding ({sizes})")
    if best.kernels and best.kernels.missed_seconds >= _MUCH * best.kernels.seconds:
        share = best.kernels.missed_seconds / best.kernels.seconds
        found.append(f"{share:.0%} of kernel time in products that did not use Tensor Cores")
    return found

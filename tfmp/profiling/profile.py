"""profile_training: one training step under several policies, timed in turns in one process."""

import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from tfmp.machine import Device, GpuWatch, devices
from tfmp.precision import Pattern, as_patterns, check_policy, policy
from tfmp.profiling.bench import OUT_OF_MEMORY, Bench, Job, circumstances, reason_of
from tfmp.profiling.copies import ModelOrBuilder, check_source
from tfmp.profiling.kernels import kernel_use, read_kernels, trace
from tfmp.profiling.layers import LayerProfile, profile_layers
from tfmp.profiling.limits import find_limits
from tfmp.profiling.report import ProfileReport
from tfmp.profiling.runs import TrainingRun, Variant, variants_of
from tfmp.roofline import Roofline
from tfmp.shared.arguments import check_count
from tfmp.shared.atomic_file import temporary_folder
from tfmp.shared.backend import current_backend, without_retracing_advice
from tfmp.shared.batches import TrainingData, whole_batches
from tfmp.shared.progress import OnStage, Progress, listening
from tfmp.shared.report_files import check_folder

_TRACED_STEPS = 5

# Seconds of steps while the card's use is sampled; the first second of them does not count.
_WATCHED_S = 4.0


def profile_training(
    model: ModelOrBuilder,
    data: TrainingData,
    policies: Sequence[str] = ("float32", "mixed_float16"),
    *,
    batch_size: int = 32,
    rounds: int = 10,
    steps: int | None = None,
    layers: bool = True,
    roofline: bool = True,
    keep_float32: Pattern | Iterable[Pattern] = (),
    log_dir: str | Path | None = None,
    progress: OnStage = None,
) -> ProfileReport:
    """Measures a model's training step under several policies, and the cost of each layer.

    Every policy trains a copy of the model from the same weights on the same batches, planned and
    loss-scaled as `MixedPrecision` does it. The copies take turns, in an order that rotates from
    round to round. The model itself is not changed. If the card has TF32, "float32" is measured
    without TF32 and with it.

    Args:
        model: compiled and built, Sequential, Functional or with a `get_config` that makes it
            again; or a function that builds and compiles it.
        data: a tuple `(x, y)` or `(x, y, sample_weight)` of arrays, or an iterable of batches with
            this form.
        policies: names, as in `tfmp.plan`: "float32", "mixed_float16", "mixed_bfloat16",
            "float64", "bfloat16", "float16".
        batch_size: samples in a batch that is cut from arrays.
        rounds: number of timings of each policy.
        steps: training steps in one timing; None takes as many as last a quarter of a second.
        layers: whether each layer is measured too; this compiles every layer by itself.
        roofline: whether the step and its layers are compared with the device's peaks.
        keep_float32: layers to keep in float32, as in `tfmp.plan`.
        log_dir: folder for the profiler's traces, with a folder for each policy; TensorBoard reads
            them.
        progress: called with a short text when a stage begins.

    Returns:
        The report; print it, save it, or take it to JSON with `to_dict`.

    Raises:
        TypeError: the model, the data or a policy has the wrong type.
        ValueError: the model cannot be trained or copied, there is no batch, an argument is out of
            range, or `log_dir` cannot be written to.
    """
    current_backend()  # raises for one that is not supported
    check_policies(policies)
    batch_size = check_count("batch_size", batch_size)
    rounds = check_count("rounds", rounds)
    steps = None if steps is None else check_count("steps", steps)
    if log_dir is not None:
        check_folder("log_dir", log_dir, make=False)  # before minutes of measuring, not after
    check_source(model, "profile_training")
    batches = tuple(whole_batches(data, batch_size))
    device = devices.visible_devices()[0]
    variants = variants_of([policy.resolve_policy(name).policy for name in policies], device)
    job = Job(model, batches, batches[0].samples, variants, rounds=rounds, steps=steps)
    job = replace(job, keep_float32=tuple(as_patterns(keep_float32)))
    with listening(progress) as told, without_retracing_advice():
        bench = ProfilingBench(job, device, told)
        if isinstance(data, tuple) and job.batch_size < batch_size:
            bench.notes.append(f"a batch has {job.batch_size} samples: the data has no more")
        own = current_backend()
        if roofline and not own.has_xla:
            roofline = False
            bench.notes.append(f"{own.title} has no XLA, which counts the work for a roofline")
        for variant in variants:
            bench.compile(variant)
        if bench.runs:
            bench.time()
            if layers:
                bench.time_layers(roofline)
            if roofline:
                told("comparing with the device's peaks")
                bench.roofline, notes = find_limits(bench.runs, bench.rows, bench.layers, device)
                bench.notes += notes
        bench.watch_gpu()
        bench.look_at_kernels(log_dir)
    return bench.report(log_dir)


class ProfilingBench(Bench):
    """The runs that are compared, and their results so far."""

    def __init__(self, job: Job, device: Device, progress: Progress) -> None:
        super().__init__(job)
        self._device, self._tell = device, progress
        self.layers: tuple[LayerProfile, ...] = ()
        self.notes: list[str] = []
        self.gpu_note = ""
        self.roofline: Roofline | None = None

    def compile(self, variant: Variant) -> None:
        """Makes a copy for a variant and compiles its step."""
        name = str(variant)
        self._tell(f"compiling a step in {name}")
        run = self.add(variant)
        if error := self.rows[name].error:
            remedy = (
                "Measure it with smaller batches"
                if error == OUT_OF_MEMORY
                else f"model.fit in {variant.policy} shows the whole error"
            )
            self.notes.append(f"{name} did not run: {error}. {remedy}")
        elif isinstance(run, TrainingRun) and run.unscaled:
            self.notes.append(f"{name} was trained at scale 1: train_step never scales its loss")

    def time(self) -> None:
        """As in `Bench`, with what the steps trained."""
        steps = self.job.steps
        often = f"{steps} steps" if steps else "as many steps as last a quarter of a second"
        self._tell(f"timing {self.job.rounds} rounds of {often} in {', '.join(self.runs)}")
        super().time()
        for name, run in self.runs.items():
            self.rows[name] = replace(
                self.rows[name],
                loss=run.mean_loss(),
                total_steps=run.steps_taken,
                skipped_steps=run.skipped_steps(),
            )

    def time_layers(self, counted: bool) -> None:
        """Times each layer; counts its work, too, if that is asked for."""
        self._tell("timing each layer")
        try:
            self.layers, notes = profile_layers(self.runs, counted)
        except ValueError as error:  # a loss that only the user's train_step knows
            notes = [f"the layers could not be measured: {reason_of(error)}"]
        self.notes += notes

    def watch_gpu(self) -> None:
        """Samples the card's use during some seconds of each run, where there is a card."""
        for name, run in self.runs.items():
            with GpuWatch(self._device) as watch:
                self.gpu_note = watch.why_not
                if watch.why_not:
                    return
                self._tell(f"watching the GPU in {name}")
                until = time.perf_counter() + _WATCHED_S
                while time.perf_counter() < until:
                    run.run(self.steps)
            self.rows[name] = replace(self.rows[name], gpu=watch.use)

    def look_at_kernels(self, log_dir: str | Path | None) -> None:
        """Traces some steps of each run, for TensorBoard and to see the kernels on a GPU."""
        on_gpu = self._device.kind == "gpu"
        if log_dir is None and not on_gpu:
            return
        paths = sorted({row.path for run in self.runs.values() for row in run.plan.rows})
        with ExitStack() as stack:
            top = Path(log_dir or stack.enter_context(temporary_folder()))
            for name, run in self.runs.items():
                self._tell(f"tracing {_TRACED_STEPS} steps in {name}")
                folder = top / name.replace(" (TF32)", "_tf32")
                trace(partial(run.run, _TRACED_STEPS), folder)
                try:
                    kernels = read_kernels(folder) if on_gpu else None
                except (ValueError, OSError, subprocess.SubprocessError) as error:
                    self.notes.append(reason_of(error))
                    continue
                if kernels:
                    self.rows[name] = replace(self.rows[name], kernels=kernel_use(kernels, paths))
        known = all(self.rows[name].kernels for name in self.runs)
        if on_gpu and not known and find_spec("xprof") is None:
            self.notes.append(
                "whether kernels used Tensor Cores is unknown without xprof: "
                'pip install "tfmp[profile]"'
            )

    def report(self, log_dir: str | Path | None) -> ProfileReport:
        """The results so far."""
        return ProfileReport(
            **circumstances(self.name, self.job, self._device),
            steps_per_round=self.steps,
            variants=tuple(self.rows.values()),
            layers=self.layers,
            notes=tuple(self.notes),
            log_dir=str(log_dir) if log_dir is not None else None,
            gpu_note=self.gpu_note,
            roofline=self.roofline,
        )


def check_policies(policies: Sequence[str]) -> None:
    """Accepts names of different policies.

    Raises:
        ValueError: there is none, one is unknown, or one comes twice.
    """
    if isinstance(policies, str) or not policies:
        raise ValueError(
            "policies expects names of policies in a tuple, such as "
            f"('float32', 'mixed_float16'); received {policies!r}."
        )
    for name in policies:
        check_policy(name)
    if len(set(policies)) != len(policies):
        raise ValueError(f"policies expects each policy once; received {tuple(policies)!r}.")

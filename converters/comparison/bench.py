"""A bench: the reference and its candidates, open side by side and compared batch by batch."""

import platform
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tfmp.converters.comparison.devices import Placing, opened_where_possible
from tfmp.converters.comparison.drift_stages import Split
from tfmp.converters.comparison.latency import keras_latencies, latency_of
from tfmp.converters.comparison.one_by_one import check_batch_axis
from tfmp.converters.comparison.plan import Plan
from tfmp.converters.comparison.trials import CandidateFile, Trial
from tfmp.converters.formats import format_named
from tfmp.converters.intake import AnySource
from tfmp.converters.report import Evidence, Latency, ReferenceReport
from tfmp.converters.runners import Runner, TensorFlowRunner, laid_out, time_runner
from tfmp.converters.samples import DataReport, SampleBatch
from tfmp.converters.shared.errors import InputError, RunnerError, running_on_samples
from tfmp.converters.shared.layout import Layout
from tfmp.converters.shared.memory import free_graphs
from tfmp.converters.shared.tensors import Batch
from tfmp.shared.packages import installed_versions, processor_name
from tfmp.shared.progress import Progress

_PACKAGES = "tfmp tensorflow keras onnx onnxruntime-gpu onnxruntime tf2onnx ai-edge-litert numpy"


class Bench:
    """Runs a reference and its candidates on the same batches, and adds up how they differ."""

    def __init__(
        self,
        source: AnySource,
        files: Sequence[CandidateFile],
        layout: Layout,
        plan: Plan,
        placing: Placing,
        stack: ExitStack,
        baselines: Mapping[str, Path | str] | None = None,
    ) -> None:
        """Opens everything; what cannot be opened costs its candidate only.

        Args:
            source: the reference.
            files: the candidates.
            layout: of the samples.
            plan: what to measure.
            placing: what runs where.
            stack: holds what is opened, and closes it.
            baselines: see `Split`.
        """
        self._source, self._layout, self._plan, self._placing = source, layout, plan, placing
        try:
            original, self._notes = opened_where_possible(
                lambda gpu: _reference_runner(source, gpu), placing.reference_gpu, plan.device
            )
        except RunnerError as error:  # such as a file that a GPU's runtime refuses
            raise InputError(f"reference {source.name!r}: {error}") from error
        self._alone = stack.enter_context(original)
        self._original = laid_out(original, layout)
        self._split = Split(source, layout, plan.tasks, stack, baselines) if plan.split else None
        self._any_batch_size = all(spec.shape[:1] == (None,) for spec in self._original.inputs)
        self._latency: Latency | None = None
        self._latencies: tuple[Latency, ...] = ()
        self._sample: Batch = {}
        self._trials = [
            Trial(
                *(each, source, layout, plan, each.profile is None and on_gpu),
                *(self._split, stack),
            )
            for file in files
            for on_gpu in [file.format.name in placing.gpu]
            for each in file.on(plan.profiles, on_gpu)
        ]
        free_graphs(sum(file.path.stat().st_size for file in files if file.path.is_file()))

    def update(self, batch: SampleBatch) -> None:
        """Runs and compares one batch."""
        inputs = self._sample = batch.inputs
        with running_on_samples(self._source.name):
            expected = self._original.run(inputs)
        if self._any_batch_size:
            check_batch_axis(expected, len(batch))
        if self._split is not None:
            self._split.update(batch, expected)
        for trial in self._trials:
            trial.update(batch, expected)

    def start_over(self, label_kinds: Mapping[str, str] | None) -> None:
        """Forgets what was measured, but not what failed.

        Args:
            label_kinds: how labels are read, by output, as an earlier batch decided it; None to
                let the next batch decide.
        """
        if self._split is not None:
            self._split.start_over()
        for trial in self._trials:
            trial.start_over(label_kinds)

    @property
    def label_kinds(self) -> Mapping[str, str]:
        """How labels are read, by output, once there were any."""
        return next((trial.label_kinds for trial in self._trials if trial.label_kinds), {})

    def measure_latency(self) -> None:
        """Times calls on samples of the last batch."""
        call, rows = self._layout.first_call(self._alone.inputs, self._sample)
        self._latency = latency_of(time_runner(self._alone, call, rows))
        sizes = self._plan.latency_batches
        if sizes:
            inputs, device = self._alone.inputs, self._alone.info.device
            calls = [self._layout.first_call(inputs, self._sample, size) for size in sizes]
            own = {rows: call for call, rows in calls}  # one call, if the model fixes its rows
            self._latencies, problem = keras_latencies(self._source, own, device)
            self._notes = (*self._notes, *problem)
        for trial in self._trials:
            trial.measure_latency(self._sample, sizes)

    def evidence(self, data: DataReport, progress: Progress) -> Evidence:
        """What was measured, explained if that was planned.

        Args:
            data: the samples.
            progress: told of the stages.
        """
        if self._plan.explain:
            progress("explaining")
        return Evidence(
            reference=self._reference(),
            candidates=tuple(trial.evidence() for trial in self._trials),
            data=data,
            environment={
                "device": self._placing.text,
                "python": platform.python_version(),
                "platform": platform.platform(),
                "processor": processor_name(),
                **installed_versions(_PACKAGES.split()),
            },
        )

    def _reference(self) -> ReferenceReport:
        origin = self._source.origin
        floor, unmeasured = self._split.noise_floor() if self._split else ((), ())
        return ReferenceReport(
            name=self._source.name,
            format=origin.format,
            path=str(origin.path) if origin.path else None,
            sha256=origin.sha256,
            size_bytes=origin.size_bytes,
            runner=self._original.info,
            notes=(*self._notes, *origin.notes, *unmeasured),
            noise_floor=floor,
            latency=self._latency,
            latencies=self._latencies,
        )


def _reference_runner(source: AnySource, gpu: bool) -> Runner:
    """The runner of the original in float32, on a GPU where its framework has one."""
    if source.file_format is not None:
        return format_named(source.file_format).open_reference(source, gpu)
    return TensorFlowRunner(source, gpu)

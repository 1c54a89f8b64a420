"""A bench: the reference and its candidates, open side by side and compared batch by batch."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfmp.converters.comparison.devices import Placing
from tfmp.converters.comparison.drift_stages import Baselines, NoiseFloor
from tfmp.converters.comparison.latency import of_runner
from tfmp.converters.comparison.trials import Explain, Trial
from tfmp.converters.drift import DriftBudget
from tfmp.converters.intake import AnySource
from tfmp.converters.onnx.emulation import GPU, Profile
from tfmp.converters.report import DriftReport, Findings, Latency, Progress, ReferenceReport
from tfmp.converters.runners import reference_runner
from tfmp.converters.samples import DataReport
from tfmp.converters.shared.environment import environment
from tfmp.converters.shared.errors import running_on_samples
from tfmp.converters.shared.tensors import Batch


@dataclass(frozen=True)
class Plan:
    """What is to be measured, and what it is judged by.

    Attributes:
        budget: the allowed drift.
        device: what was asked for, see `devices.choose`.
        profile: of the hardware that FP16 ONNX files are emulated for; None where none was asked
            for, which is `GPU`.
        split: also measure where the drift comes from.
        explain: also explain it; None for not at all.
    """

    budget: DriftBudget = field(default_factory=DriftBudget)
    device: str = "auto"
    profile: Profile | None = None
    split: bool = False
    explain: Explain | None = None


class Bench:
    """Runs a reference and its candidates on the same batches, and adds up how they differ."""

    def __init__(
        self,
        source: AnySource,
        files: Mapping[str, Path],
        findings: Sequence[Findings],
        plan: Plan,
        placing: Placing,
        stack: ExitStack,
        baselines: Mapping[str, Path | str] | None = None,
    ) -> None:
        """Opens everything; what cannot be opened costs its candidate only.

        Args:
            source: the reference.
            files: the candidates by the names that the report gives them.
            findings: what is known of each from its conversion.
            plan: what to measure.
            placing: what runs where.
            stack: holds what is opened, and closes it.
            baselines: see `Baselines`.
        """
        self._source, self._plan, self._placing = source, plan, placing
        self._original = stack.enter_context(reference_runner(source, placing.reference_gpu))
        self._baselines = Baselines(source, stack, baselines) if plan.split else None
        self._noise = NoiseFloor(source) if plan.split else None
        self._latency: Latency | None = None
        self._sample: Batch = {}
        gpus = {".onnx": placing.onnx_gpu, ".tflite": placing.tflite_gpu}
        self._trials = [
            Trial(
                path,
                name,
                source,
                stack,
                self._baselines,
                gpus[path.suffix.lower()],
                plan.profile or GPU,
                told,
                plan.explain,
            )
            for (name, path), told in zip(files.items(), findings, strict=True)
        ]

    def update(self, inputs: Batch, labels: Any) -> None:
        """Runs and compares one batch."""
        self._sample = inputs
        with running_on_samples(self._source.name):
            expected = self._original.run(inputs)
        if self._baselines is not None:
            self._baselines.run(inputs)
        if self._noise is not None:
            self._noise.update(inputs, expected)
        for trial in self._trials:
            trial.update(inputs, expected, labels)

    def start_over(self, label_kinds: Mapping[str, str] | None) -> None:
        """Forgets what was measured, but not what failed.

        Args:
            label_kinds: how labels are read, by output, as an earlier batch decided it; None to
                let the next batch decide.
        """
        if self._noise is not None:
            self._noise.start_over()
        for trial in self._trials:
            trial.start_over(label_kinds)

    @property
    def label_kinds(self) -> Mapping[str, str]:
        """How labels are read, by output, once there were any."""
        return next((trial.label_kinds for trial in self._trials if trial.label_kinds), {})

    def measure_latency(self) -> None:
        """Times calls on samples of the last batch."""
        self._latency = of_runner(self._original, self._sample)
        for trial in self._trials:
            trial.measure_latency(self._sample)

    def report(self, data: DataReport, progress: Progress) -> DriftReport:
        """What was measured, judged, and explained if that was planned.

        Args:
            data: the samples.
            progress: called with a short text when a stage begins.
        """
        if self._plan.explain is not None:
            progress("explaining")
        budget = self._plan.budget
        return DriftReport.of(
            reference=self._reference(),
            candidates=[trial.report(budget, data) for trial in self._trials],
            data=data,
            budget=budget,
            environment={"device": self._placing.text, **environment()},
        )

    def _reference(self) -> ReferenceReport:
        origin = self._source.origin
        notes = origin.notes
        if self._noise is not None and self._noise.error is not None:
            notes = (*notes, f"noise floor not measured: {self._noise.error}")
        return ReferenceReport(
            name=self._source.name,
            format=origin.format,
            path=str(origin.path) if origin.path else None,
            sha256=origin.sha256,
            size_bytes=origin.size_bytes,
            runner=self._original.info,
            notes=notes,
            noise_floor=self._noise.outputs() if self._noise is not None else (),
            latency=self._latency,
        )

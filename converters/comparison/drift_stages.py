"""Where a candidate's drift comes from: the FP32 file, the FP16 weights, the FP16 arithmetic.

Each stage is the step from one run of the model to the next, on the same samples:

    reference -> FP32 file of the format -> FP16 weights, FP32 arithmetic -> the candidate

The FP32 file is tfmp's own conversion of the reference, made once per format. The noise floor is
the step from the reference in float64 to the reference itself.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np

from tfmp.converters.drift import Comparison, OutputDrift, Task, match
from tfmp.converters.formats import Format
from tfmp.converters.intake import AnySource, Float64Model
from tfmp.converters.report import Stage
from tfmp.converters.runners import Runner, RunnerInfo, SourceRunner, laid_out
from tfmp.converters.samples import SampleBatch
from tfmp.converters.shared.errors import ConversionError, RunnerError
from tfmp.converters.shared.layout import Layout
from tfmp.converters.shared.tensors import Batch
from tfmp.shared.atomic_file import temporary_folder

_STEPS = EXPORT, WEIGHTS, ARITHMETIC = "export", "weights", "arithmetic"


class Lane:
    """A model that takes and gives arrays by the reference's names, until it fails.

    Attributes:
        error: why it failed; None if it did not.
        given: its outputs on the batch at hand; empty once it has failed.
    """

    def __init__(
        self,
        name: str,
        source: AnySource,
        layout: Layout,
        stack: ExitStack,
        open_it: Callable[[], Runner],
    ) -> None:
        self.error: str | None = None
        self.given: Batch = {}
        try:
            runner = stack.enter_context(open_it())
            self._inputs = match(source.inputs, runner.inputs, name, "input").names
            self._outputs = match(source.outputs, runner.outputs, name).names
            self._runner = laid_out(runner, layout.renamed(self._inputs, self._outputs))
        except (RunnerError, ConversionError) as error:
            self.error = str(error)

    def run(self, inputs: Batch) -> Batch:
        """Outputs on the next batch."""
        self.given = {}
        if self.error is None:
            try:
                given = self._runner.run({self._inputs[k]: array for k, array in inputs.items()})
                self.given = {k: given[own] for k, own in self._outputs.items() if own in given}
            except (RunnerError, ConversionError) as error:
                self.error = str(error)
        return self.given


class Step:
    """The distance between two models on the same samples, until it cannot be measured.

    Attributes:
        error: why it cannot; None if it can.
    """

    def __init__(self, compared: Callable[[], Comparison]) -> None:
        self._compared = compared
        self.error: str | None = None
        self.start_over()

    def start_over(self) -> None:
        """Forgets what was measured, but not what failed."""
        self._comparison: Comparison | None = None

    def update(self, before: Batch, after: Batch, keys: np.ndarray) -> Batch:
        """Adds one batch; gives `after`, or nothing where it could not be compared."""
        if self.error is not None or not before or not after:
            return {}
        self._comparison = self._comparison or self._compared()
        try:
            self._comparison.update(before, after, keys=keys)
        except RunnerError as error:
            self.error = str(error)
            return {}
        return after

    def outputs(self) -> tuple[OutputDrift, ...]:
        """What was measured, by output; empty if nothing was."""
        return self._comparison.outputs() if self._comparison and self.error is None else ()


class Split:
    """The reference as an FP32 file of each format and in float64, for the stages of all files."""

    def __init__(
        self,
        source: AnySource,
        layout: Layout,
        tasks: Mapping[str, Task],
        stack: ExitStack,
        made: Mapping[str, Path | str] | None = None,
    ) -> None:
        """Converts nothing yet.

        Args:
            source: the reference.
            layout: of the samples.
            tasks: declared meanings of outputs.
            stack: holds what will be opened.
            made: what `make_baselines` gave; None to convert here, as far as it is needed.
        """
        self._source, self._stack, self._made = source, stack, made
        outputs = layout.outputs(source.outputs)
        self.lane = partial(Lane, source=source, layout=layout, stack=stack)
        self._compared = partial(
            Comparison, reference=outputs, candidate=outputs, tasks=tasks, hints=source.hints
        )
        self._files: dict[str, Lane] = {}
        self._exact: Lane | None = None
        self._noise = self.step("float64")

    def step(self, name: str) -> Step:
        """A step of one candidate."""
        return Step(partial(self._compared, name))

    def file(self, format: Format) -> Lane | None:
        """The FP32 file of a format; None for a reference that is a file, which is the one."""
        if format.name not in self._files and self._source.file_format is None:
            folder = self._stack.enter_context(temporary_folder())
            made = self._made or make_baselines(self._source, (format,), folder)
            self._files[format.name] = self.lane(
                f"the FP32 {format.name} file",
                open_it=lambda: _open_baseline(format, made[format.name]),
            )
        return self._files.get(format.name)

    def update(self, batch: SampleBatch, expected: Batch) -> None:
        """Runs everything once for all candidates, beside the reference's outputs."""
        for lane in self._files.values():
            lane.run(batch.inputs)
        self._exact = self._exact or self.lane(
            "float64", open_it=partial(_Float64Runner, self._source)
        )
        self._noise.update(self._exact.run(batch.inputs), expected, batch.keys)

    def start_over(self) -> None:
        """Forgets what was measured, but not what failed."""
        self._noise.start_over()

    def noise_floor(self) -> tuple[tuple[OutputDrift, ...], tuple[str, ...]]:
        """The distance of float32 from float64, by output; or a note on why there is none."""
        error = (self._exact.error if self._exact else None) or self._noise.error
        return self._noise.outputs(), (f"noise floor not measured: {error}",) if error else ()


class _Float64Runner(SourceRunner):
    """The reference in float64."""

    def __init__(self, source: AnySource) -> None:
        super().__init__(source, RunnerInfo("tensorflow", "CPU", None))
        self._model = Float64Model(source)

    def run(self, batch: Batch) -> Batch:
        return self._model.run(batch)


def make_baselines(
    source: AnySource, formats: Collection[Format], folder: Path
) -> dict[str, Path | str]:
    """Converts the reference to FP32 files.

    Args:
        source: the reference.
        formats: of the files.
        folder: for the files.

    Returns:
        By the format's name, the file, or why the reference cannot be converted. Empty for a
        reference that is a file of some format, which is the FP32 file itself.
    """
    if source.file_format is not None:
        return {}
    made: dict[str, Path | str] = {}
    for format in formats:
        path = folder / f"reference{format.suffix}"
        try:
            format.write_fp32(source, path)
            made[format.name] = path
        except ConversionError as error:
            made[format.name] = str(error)
    return made


def _open_baseline(format: Format, made: Path | str) -> Runner:
    if isinstance(made, str):
        raise ConversionError(made)
    return format.open_runner(made, weights_only=True)


class DriftStages:
    """The stages of one candidate."""

    def __init__(
        self, split: Split, path: Path, format: Format, info: RunnerInfo, signature: str | None
    ) -> None:
        """Opens what the stages need beyond the candidate's own run.

        Args:
            split: what all candidates share.
            path: of the candidate.
            format: of the candidate.
            info: how the candidate itself runs.
            signature: the entry point that is compared.
        """
        self._steps = {name: split.step(name) for name in _STEPS}
        self._is_fp32 = info.fp16 is None
        self._file = None if self._is_fp32 else split.file(format)
        self._light: Lane | None = None
        if info.fp16 in ("emulated", "native"):
            self._light = split.lane(
                path.name,
                open_it=lambda: format.open_runner(path, signature=signature, weights_only=True),
            )

    def update(self, batch: SampleBatch, expected: Batch, received: Batch) -> None:
        """Adds one batch: the reference's outputs and the candidate's, by the reference's names."""
        export, weights, arithmetic = (self._steps[name] for name in _STEPS)
        if self._is_fp32:
            export.update(expected, received, batch.keys)
            return
        exported = self._file.given if self._file else {}
        before = export.update(expected, exported, batch.keys) or expected
        after = self._light.run(batch.inputs) if self._light else received
        rounded = weights.update(before, after, batch.keys)
        if self._light:
            arithmetic.update(rounded, received, batch.keys)

    def start_over(self) -> None:
        """Forgets what was measured, but not what failed."""
        for step in self._steps.values():
            step.start_over()

    def stages(self) -> tuple[Stage, ...]:
        """What was measured, in order; a stage that could not be has its error instead."""
        lanes = {EXPORT: self._file, WEIGHTS: self._light}
        found = []
        for name, step in self._steps.items():
            lane = lanes.get(name)
            error = (lane.error if lane else None) or step.error
            if error is not None or step.outputs():
                found.append(Stage(name, step.outputs(), error))
        return tuple(found)

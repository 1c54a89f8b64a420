"""Where a candidate's drift comes from: the FP32 file, the FP16 weights, the FP16 arithmetic.

Each stage is the step from one run of the model to the next, on the same samples:

    reference -> FP32 file of the format -> FP16 weights, FP32 arithmetic -> the candidate

The FP32 file is tfmp's own conversion of the reference, made once per format.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from tfmp.converters.drift import Comparison, OutputDrift, Task, match
from tfmp.converters.formats import Format
from tfmp.converters.intake import AnySource, Float64Model
from tfmp.converters.report import Stage
from tfmp.converters.runners import Runner, RunnerInfo, laid_out
from tfmp.converters.samples import SampleBatch
from tfmp.converters.shared.errors import ConversionError, RunnerError
from tfmp.converters.shared.layout import Layout
from tfmp.converters.shared.tensors import Batch
from tfmp.shared.atomic_file import temporary_folder

EXPORT, WEIGHTS, ARITHMETIC = "export", "weights", "arithmetic"


class Lane:
    """A model that takes and gives arrays by the reference's names, until it fails."""

    def __init__(
        self, name: str, source: AnySource, layout: Layout, open_it: Callable[[], Runner]
    ) -> None:
        """Opens the runner.

        Args:
            name: for messages.
            source: the reference.
            layout: of the samples.
            open_it: gives the runner.
        """
        self.error: str | None = None
        self._runner: Runner | None = None
        try:
            self._runner = runner = open_it()
            self._inputs = match(source.inputs, runner.inputs, name, "input").names
            self._outputs = match(source.outputs, runner.outputs, name).names
            self._runner = laid_out(runner, layout.renamed(self._inputs, self._outputs))
        except (RunnerError, ConversionError) as error:
            self.error = str(error)

    @property
    def info(self) -> RunnerInfo:
        """What runs it."""
        return self._runner.info if self._runner else RunnerInfo("none", "none", None)

    def run(self, inputs: Batch) -> Batch | None:
        """None once it has failed."""
        if self.error is not None or self._runner is None:
            return None
        try:
            given = self._runner.run({self._inputs[key]: value for key, value in inputs.items()})
        except RunnerError as error:
            self.error = str(error)
            return None
        return {name: given[own] for name, own in self._outputs.items() if own in given}

    def close(self) -> None:
        """Ends the runner."""
        if self._runner is not None:
            self._runner.__exit__(None, None, None)


class Baselines:
    """The reference as an FP32 file of each format, and its outputs on the batch at hand."""

    def __init__(
        self,
        source: AnySource,
        layout: Layout,
        stack: ExitStack,
        made: Mapping[str, Path | str] | None = None,
    ) -> None:
        """Converts nothing yet.

        Args:
            source: the reference.
            layout: of the samples.
            stack: holds what will be opened.
            made: what `make_baselines` gave; None to convert here, as far as it is needed.
        """
        self._source, self._layout = source, layout
        self._stack = stack
        self._made = made
        self._lanes: dict[str, Lane] = {}
        self._given: dict[str, Batch | None] = {}

    def require(self, format: Format) -> None:
        """Makes sure that there is a lane for a format."""
        # A reference that is a file of some format is the FP32 file itself.
        if format.name in self._lanes or self._source.file_format is not None:
            return
        folder = self._stack.enter_context(temporary_folder())
        made = self._made or make_baselines(self._source, (format,), folder)
        self._lanes[format.name] = lane = Lane(
            f"the FP32 {format.name} file",
            self._source,
            self._layout,
            lambda: _open_baseline(format, made[format.name]),
        )
        self._stack.callback(lane.close)

    def run(self, inputs: Batch) -> None:
        """Runs every lane once for all candidates."""
        self._given = {format: lane.run(inputs) for format, lane in self._lanes.items()}

    def outputs(self, format: str) -> Batch | None:
        """What the FP32 file of a format gave; None without one."""
        return self._given.get(format)

    def lane(self, format: str) -> Lane | None:
        """The FP32 file of a format; None where the reference is one."""
        return self._lanes.get(format)


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
        except ConversionError as error:
            made[format.name] = str(error)
        else:
            made[format.name] = path
    return made


def _open_baseline(format: Format, made: Path | str) -> Runner:
    if isinstance(made, str):
        raise ConversionError(made)
    return format.open_fp32(made)


class DriftStages:
    """The stages of one candidate."""

    def __init__(
        self,
        path: Path,
        format: Format,
        info: RunnerInfo,
        source: AnySource,
        layout: Layout,
        baselines: Baselines,
        stack: ExitStack,
        tasks: Mapping[str, Task],
    ) -> None:
        """Opens what the stages need beyond the candidate's own run.

        Args:
            path: of the candidate.
            format: of the candidate.
            info: how the candidate itself runs.
            source: the reference.
            layout: of the samples.
            baselines: the reference as FP32 files.
            stack: holds the runners.
            tasks: declared meanings of outputs.
        """
        self._format, self._fp16 = format.name, info.fp16
        self._outputs, self._hints = layout.outputs(source.outputs), source.hints
        self._tasks = tasks
        self._baselines = baselines
        if info.fp16 is not None:
            baselines.require(format)
        self._light: Lane | None = None
        if info.fp16 in ("emulated", "native"):
            entry = source.origin.signature
            self._light = Lane(
                path.name, source, layout, lambda: format.open_weights_only(path, entry)
            )
            stack.callback(self._light.close)
        self._keys: np.ndarray | None = None
        self._stages: dict[str, Comparison] = {}
        self._errors: dict[str, str] = {}

    def update(self, batch: SampleBatch, expected: Batch, received: Batch) -> None:
        """Adds one batch: the reference's outputs and the candidate's, by the reference's names."""
        self._keys = batch.keys
        if self._fp16 is None:
            self._step(EXPORT, expected, received)
            return
        exported = self._baselines.outputs(self._format) or {}
        before = self._step(EXPORT, expected, exported) or expected
        if self._light is None:
            self._step(WEIGHTS, before, received)
            return
        weights = self._step(WEIGHTS, before, self._light.run(batch.inputs) or {})
        if weights:
            self._step(ARITHMETIC, weights, received)

    def start_over(self) -> None:
        """Forgets what was measured, but not what failed."""
        self._stages.clear()

    def _step(self, stage: str, before: Batch, after: Batch) -> Batch | None:
        """Compares one step; gives `after`, or None if it could not be compared."""
        if not after or stage in self._errors:
            return None
        outputs = self._outputs
        comparison = self._stages.setdefault(
            stage, Comparison(stage, outputs, outputs, tasks=self._tasks, hints=self._hints)
        )
        try:
            comparison.update(before, after, keys=self._keys)
        except RunnerError as error:
            self._errors[stage] = str(error)
            return None
        return after

    def stages(self) -> tuple[Stage, ...]:
        """What was measured, in order; a stage that could not be has its error instead."""
        baseline = self._baselines.lane(self._format)
        failed = {EXPORT: baseline.error if baseline else None}
        failed[WEIGHTS] = self._light.error if self._light else None
        found = []
        for name in (EXPORT, WEIGHTS, ARITHMETIC):
            error = failed.get(name) or self._errors.get(name)
            if error is not None:
                found.append(Stage(name, (), error))
            elif name in self._stages:
                found.append(Stage(name, self._stages[name].outputs()))
        return tuple(found)


class NoiseFloor:
    """How far float32 itself is from float64, on the reference."""

    def __init__(self, source: AnySource, layout: Layout, tasks: Mapping[str, Task]) -> None:
        """Widens the reference to float64.

        Args:
            source: the reference.
            layout: of the samples.
            tasks: declared meanings of outputs.
        """
        self.error: str | None = None
        self._comparison: Comparison | None = None
        self._model: Float64Model | None = None
        self._inputs, self._layout = source.inputs, layout
        self._outputs, self._tasks = layout.outputs(source.outputs), tasks
        self._hints = source.hints
        try:
            self._model = Float64Model(source)
            self.start_over()
        except ConversionError as error:
            self.error = str(error)

    def start_over(self) -> None:
        """Forgets what was measured, but not what failed."""
        self._comparison = Comparison(
            "float64", self._outputs, self._outputs, tasks=self._tasks, hints=self._hints
        )

    def update(self, batch: SampleBatch, expected: Batch) -> None:
        """Adds one batch with the float32 reference's outputs."""
        if self.error is not None or self._comparison is None or self._model is None:
            return
        try:
            exact = self._layout.run(self._model.run, self._inputs, batch.inputs)
            self._comparison.update(exact, expected, keys=batch.keys)
        except (ConversionError, RunnerError) as error:
            self.error = str(error)

    def outputs(self) -> tuple[OutputDrift, ...]:
        """The distance of float32 from float64, by output; empty if it could not be measured."""
        if self.error is not None or self._comparison is None:
            return ()
        return self._comparison.outputs()

"""A runner that takes arrays as the data has them, whatever the model's own layout is."""

from collections.abc import Sequence
from typing import Self

import numpy as np

from tfmp.converters.runners.base import Runner, RunnerInfo
from tfmp.converters.shared.errors import InputError, RunnerError
from tfmp.converters.shared.layout import PLAIN, Layout
from tfmp.converters.shared.memory import check_memory
from tfmp.converters.shared.tensors import Batch, TensorSpec, in_pieces


def laid_out(runner: Runner, layout: Layout) -> Runner:
    """The runner for any number of samples in a layout.

    Args:
        runner: runs the model itself.
        layout: by the runner's own names.

    Raises:
        RunnerError: the model takes no samples at once, or more than memory holds.
    """
    samples = layout.fixed_samples(runner.inputs)
    if layout == PLAIN and samples is None:
        return runner
    if samples is not None:
        _check_call(runner.inputs, samples)
    return _LaidOut(runner, layout)


def _check_call(inputs: Sequence[TensorSpec], samples: int) -> None:
    for spec in inputs:
        if samples < 1:
            raise RunnerError(
                f"input {spec} takes {samples} samples at once. Convert the model again, with "
                "--batch N for a fixed number"
            )
        try:
            check_memory(f"input {spec}", spec.call_bytes)
        except InputError as error:
            raise RunnerError(str(error).removesuffix(".")) from error


class _LaidOut:
    """See `base.Runner`; of a model with states, `run` takes whole sequences."""

    def __init__(self, runner: Runner, layout: Layout) -> None:
        self._runner, self._layout = runner, layout
        self.inputs = layout.inputs(runner.inputs)
        self.outputs = layout.outputs(runner.outputs)
        self.info: RunnerInfo = runner.info
        self.notes = runner.notes

    def run(self, batch: Batch) -> Batch:
        size = self._layout.fixed_samples(self._runner.inputs)
        parts = [self._piece(piece, real, size) for piece, real in in_pieces(batch, size)]
        if len(parts) == 1:
            return parts[0]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _piece(self, piece: Batch, real: int, size: int | None) -> Batch:
        """The outputs of the samples that are real."""
        outputs = self._layout.run(self._runner.run, self._runner.inputs, piece)
        if size in (None, real):
            return outputs
        for name, array in outputs.items():
            if np.shape(array)[:1] != (size,):
                raise RunnerError(
                    f"output {name!r} has shape {list(np.shape(array))} for a batch of {size}: its "
                    "first size is not the batch, so samples cannot be separated. Compare with a "
                    "model of the same batch size"
                )
        return {name: array[:real] for name, array in outputs.items()}

    def __enter__(self) -> Self:
        self._runner.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._runner.__exit__(*exception)

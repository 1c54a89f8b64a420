"""A runner that takes arrays as the data has them, whatever the model's own layout is."""

from typing import Self

import numpy as np

from tfmp.converters.runners.base import Runner, RunnerInfo
from tfmp.converters.shared.errors import RunnerError
from tfmp.converters.shared.layout import PLAIN, Layout
from tfmp.converters.shared.tensors import Batch, in_pieces


def laid_out(runner: Runner, layout: Layout) -> Runner:
    """The runner for any number of samples in a layout.

    Args:
        runner: runs the model itself.
        layout: by the runner's own names.
    """
    if layout == PLAIN and layout.fixed_samples(runner.inputs) is None:
        return runner
    return _LaidOut(runner, layout)


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
                    "first size is not the batch, so samples cannot be told apart. Compare with a "
                    "model of the same batch size"
                )
        return {name: array[:real] for name, array in outputs.items()}

    def __enter__(self) -> Self:
        self._runner.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._runner.__exit__(*exception)

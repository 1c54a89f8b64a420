"""A runner that takes arrays as the data has them, whatever the model's own layout is."""

from typing import Self

from tfmp.converters.runners.base import Runner, RunnerInfo
from tfmp.converters.shared.layout import PLAIN, Layout
from tfmp.converters.shared.tensors import Batch


def laid_out(runner: Runner, layout: Layout) -> Runner:
    """The runner for data in a layout.

    Args:
        runner: runs the model itself.
        layout: by the runner's own names.
    """
    return runner if layout == PLAIN else _LaidOut(runner, layout)


class _LaidOut:
    """See `base.Runner`; of a model with states, `run` takes whole sequences."""

    def __init__(self, runner: Runner, layout: Layout) -> None:
        self._runner, self._layout = runner, layout
        self.inputs = layout.inputs(runner.inputs)
        self.outputs = layout.outputs(runner.outputs)
        self.info: RunnerInfo = runner.info
        self.notes = runner.notes

    def run(self, batch: Batch) -> Batch:
        return self._layout.run(self._runner.run, self._runner.inputs, batch)

    def __enter__(self) -> Self:
        self._runner.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._runner.__exit__(*exception)

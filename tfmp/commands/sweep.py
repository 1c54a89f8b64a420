"""`tfmp sweep`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from tfmp.commands import options as common
from tfmp.commands.session import import_keras
from tfmp.shared.commands import progress_bar

if TYPE_CHECKING:
    import keras


@click.command("sweep", cls=common.Command)
@click.argument("model", metavar="MODEL")
@common.data_option
@click.option(
    "--batch-sizes",
    metavar="N,N",
    callback=common.parse_sizes,
    default="8,32,128",
    show_default=True,
    help="Batch sizes to measure, with commas between them.",
)
@common.policies_option
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice(("train", "predict")),
    help="Measure training steps or calls of predict; may be given several times. Default: both.",
)
@click.option("--xla", is_flag=True, help="Measure each policy without XLA and with it.")
@common.count_option("--rounds", "Number of timings of each policy at each size.", default=10)
@common.count_option(
    "--steps", "Steps in one timing. Default: as many as last a quarter of a second."
)
@common.keep_float32_option
@click.option("--largest-batch", is_flag=True, help="Search for the largest batch that fits.")
@common.memory_limit_option(
    "Memory that a process may take, such as 2GiB. Default: 80 % of the memory that is free."
)
@common.report_options(".html or .json")
@common.quiet_option
@common.json_option
def command(
    model: str,
    data: str,
    modes: tuple[str, ...],
    reports: tuple[str, ...],
    force: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Time MODEL over batch sizes under several policies.

    MODEL is a file of a compiled Keras model (.keras, .h5), or FILE.py:function, which
    builds and compiles a model. Each size runs in a process of its own: one that runs out of memory
    costs its own row.

    Exit status: 0 if a size was measured, 2 if the model or the data cannot be used.
    """
    import_keras()
    from tfmp.profiling import MODES, SUFFIXES, profile_sweep

    with common.mistakes_end_the_command():
        common.check_reports(reports, SUFFIXES, force)
        from tfmp.commands.inputs import load_training_data

        builder = _builder(model)
        training_data = load_training_data(data)
        with progress_bar(quiet) as progress:
            report = profile_sweep(
                builder,
                training_data,
                modes=modes or MODES,
                progress=progress,
                **options,  # named like its arguments
            )
        common.deliver(report, reports, as_json)


class _Loaded:
    """A function that loads a file, in the processes that need its model."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.__name__ = path

    def __call__(self) -> "keras.Model":
        from tfmp.commands.inputs import load_model

        return load_model(self._path)


def _builder(text: str) -> "Callable[..., keras.Model]":
    """A function for other processes: a model that is loaded here would take a card's memory."""
    from tfmp.commands.inputs import check_model_file, function_name, load_model_or_builder

    if function_name(text) is None:
        check_model_file(text)
        return _Loaded(text)
    return load_model_or_builder(text)

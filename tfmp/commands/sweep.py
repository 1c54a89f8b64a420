"""`tfmp sweep`."""

from typing import TYPE_CHECKING, Any

import click

from tfmp.commands import options as common
from tfmp.shared.progress import Progress

if TYPE_CHECKING:
    from tfmp.profiling import SweepReport


@click.command("sweep", cls=common.Command)
@common.model_argument
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
@common.reporting((".json", ".html"))
def command(
    model: str, data: str, modes: tuple[str, ...], progress: Progress, **options: Any
) -> "SweepReport":
    """Time MODEL over batch sizes under several policies.

    MODEL is a file of a compiled Keras model (.keras, .h5), or FILE.py:function, which
    builds and compiles a model. Each size runs in a process of its own: one that runs out of memory
    costs its own row.

    Exit status: 0 if a size was measured, 2 if the model or the data cannot be used.
    """
    from tfmp.commands.inputs import NamedModel, load_training_data
    from tfmp.profiling import MODES, profile_sweep

    return profile_sweep(
        NamedModel(model),  # a model that is loaded here would take a card's memory
        load_training_data(data),
        modes=modes or MODES,
        progress=progress,
        **options,  # named like its arguments
    )

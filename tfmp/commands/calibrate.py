"""`tfmp calibrate`."""

from typing import TYPE_CHECKING, Any

import click

from tfmp.commands import options as common
from tfmp.shared.progress import Progress

if TYPE_CHECKING:
    from tfmp.calibration import GradientReport


@click.command("calibrate")
@common.model_argument
@common.data_option
@common.count_option("--batches", "Largest number of batches to measure.", default=16)
@common.batch_size_option
@click.option(
    "--margin",
    type=click.FloatRange(min=1),
    default=8.0,
    show_default=True,
    help="Headroom: factor by which gradients may exceed the largest measured one.",
)
@common.reporting((".json", ".html", ".png", ".svg", ".pdf"), "batches")
def command(model: str, data: str, progress: Progress, **options: Any) -> "GradientReport":
    """Measure the gradients of MODEL and recommend a static loss scale.

    MODEL is a file of a compiled Keras model (.keras, .h5), or FILE.py:function, which
    builds and compiles a model. The file is not changed.

    Exit status: 0 if the gradients were measured, 2 if the model or the data cannot be used.
    """
    from tfmp.calibration import calibrate
    from tfmp.commands.inputs import NamedModel, load_training_data

    training_data = load_training_data(data)
    loaded = NamedModel(model)()
    progress("measuring gradients")
    return calibrate(loaded, training_data, **options, count=progress.count)

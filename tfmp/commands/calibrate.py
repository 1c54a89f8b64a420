"""`tfmp calibrate`."""

from typing import Any

import click

from tfmp.commands import options as common
from tfmp.commands.session import import_keras
from tfmp.shared.commands import progress_bar


@click.command("calibrate")
@click.argument("model", metavar="MODEL")
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
@common.report_options(".html, .json, .png, .svg or .pdf")
@common.quiet_option
@common.json_option
def command(
    model: str,
    data: str,
    reports: tuple[str, ...],
    force: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Measure the gradients of MODEL and recommend a static loss scale.

    MODEL is a file of a compiled Keras model (.keras, .h5), or FILE.py:function, which
    builds and compiles a model. The file is not changed.

    Exit status: 0 if the gradients were measured, 2 if the model or the data cannot be used.
    """
    from tfmp.calibration import SUFFIXES

    with common.mistakes_end_the_command():
        common.check_reports(reports, SUFFIXES, force)
        import_keras()
        from tfmp.calibration import calibrate
        from tfmp.commands.inputs import load_or_build_model, load_training_data

        training_data = load_training_data(data)
        loaded = load_or_build_model(model)
        with progress_bar(quiet, "batches") as progress:
            progress("measuring gradients")
            report = calibrate(loaded, training_data, **options, count=progress.count)
        common.deliver(report, reports, as_json)

"""`tfmp calibrate`."""

import click

from tfmp.commands.options import (
    batch_size_option,
    check_reports,
    count_option,
    data_option,
    deliver,
    json_option,
    mistakes_end_the_command,
    report_options,
)
from tfmp.commands.session import import_keras


@click.command("calibrate")
@click.argument("model", metavar="MODEL")
@data_option
@count_option("--batches", "Largest number of batches to measure.", default=16)
@batch_size_option
@click.option(
    "--margin",
    type=click.FloatRange(min=1),
    default=8.0,
    show_default=True,
    help="Headroom: factor by which gradients may exceed the largest measured one.",
)
@report_options(".json, .png, .svg or .pdf")
@json_option
def command(
    model: str,
    data: str,
    batches: int,
    batch_size: int,
    margin: float,
    reports: tuple[str, ...],
    force: bool,
    as_json: bool,
) -> None:
    """Measure the gradients of MODEL and recommend a static loss scale.

    MODEL is a file of a compiled Keras model (.keras, .h5), or FILE.py:function, which
    builds and compiles a model. The file is not changed.

    Exit status: 0 if the gradients were measured, 2 if the model or the data cannot be used.
    """
    from tfmp.calibration import SUFFIXES

    with mistakes_end_the_command():
        check_reports(reports, SUFFIXES, force)
        import_keras()
        from tfmp.calibration import calibrate
        from tfmp.commands.inputs import load_or_build_model, load_training_data

        training_data = load_training_data(data)
        report = calibrate(load_or_build_model(model), training_data, batches, batch_size, margin)
        deliver(report, reports, as_json)

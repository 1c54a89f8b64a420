"""`tfmp calibrate`."""

import json
from pathlib import Path

import click

from tfmp.commands.session import import_keras


@click.command("calibrate")
@click.argument("model", type=click.Path(dir_okay=False))
@click.option(
    "--data",
    required=True,
    metavar="FILE",
    help="Training data: .npz with an array per model input and 'labels', or "
    "package.module:function, which returns (x, y) batches.",
)
@click.option("--batches", type=click.IntRange(min=1), default=16, show_default=True)
@click.option("--batch-size", type=click.IntRange(min=1), default=32, show_default=True)
@click.option(
    "--margin",
    type=click.FloatRange(min=1),
    default=8.0,
    show_default=True,
    help="How many times larger than the largest measured one a gradient may get.",
)
@click.option(
    "--report",
    "reports",
    multiple=True,
    metavar="FILE",
    help="Write the report too: .json, .png, .svg or .pdf. May be given several times.",
)
@click.option("--force", is_flag=True, help="Overwrite report files that exist.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
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
    """Measure the gradients of MODEL (.keras, .h5, compiled) and recommend a static loss scale.

    Exit status: 0 measured, 2 on a model or data that cannot be used.
    """
    from tfmp.calibration import check_report_path

    try:
        for path in reports:
            check_report_path(path)
            if Path(path).exists() and not force:
                raise ValueError(f"{path!r} exists. Pass --force to overwrite it.")
        import_keras()
        from tfmp.calibration import calibrate
        from tfmp.commands.inputs import load_model, load_training_data

        training_data = load_training_data(data)
        report = calibrate(load_model(model), training_data, batches, batch_size, margin)
        for path in reports:
            report.save(path)
    except (TypeError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        click.echo(json.dumps(report.to_dict(), indent=2))
    else:
        click.echo(str(report))

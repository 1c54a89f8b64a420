"""`tfmp doctor`."""

import sys

import click

from tfmp.commands import options as common
from tfmp.commands.session import import_keras


@click.command("doctor")
@click.argument("model", required=False, metavar="[MODEL]")
@common.json_option
def command(model: str | None, as_json: bool) -> None:
    """Check hardware, drivers, versions and settings, and MODEL if it is given.

    MODEL is a Keras model file (.keras, .h5), or FILE.py:function, which builds a model.

    Exit status: 0 without a problem, 1 with a problem, 2 if the model cannot be used.
    """
    from tfmp.commands.inputs import load_or_build_model

    loaded = load_or_build_model(model) if model else None
    import_keras()
    from tfmp.checkup import doctor

    with common.mistakes_end_the_command():
        report = doctor(loaded)
    common.print_report(report, as_json)
    sys.exit(0 if report.healthy else 1)

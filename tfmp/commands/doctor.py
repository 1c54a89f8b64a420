"""`tfmp doctor`."""

import json
import sys

import click

from tfmp.commands.session import import_keras


@click.command("doctor")
@click.argument("model", required=False, metavar="[MODEL]")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(model: str | None, as_json: bool) -> None:
    """Check hardware, drivers, versions and settings; with MODEL, the model too.

    MODEL is a Keras file (.keras, .h5) or package.module:function, which builds one.

    Exit status: 0 if nothing is broken, 1 if something is, 2 on a model that cannot be read.
    """
    from tfmp.commands.inputs import load_or_build_model

    loaded = load_or_build_model(model) if model else None
    import_keras()
    from tfmp.checkup import doctor

    report = doctor(loaded)
    if as_json:
        click.echo(json.dumps(report.to_dict(), indent=2))
    else:
        click.echo(str(report))
    sys.exit(0 if report.healthy else 1)

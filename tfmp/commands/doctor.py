"""`tfmp doctor`."""

from typing import TYPE_CHECKING

import click

from tfmp.commands import options as common
from tfmp.shared.progress import Progress

if TYPE_CHECKING:
    from tfmp.checkup import DoctorReport


@click.command("doctor")
@click.argument("model", required=False, metavar="[MODEL]")
@common.reporting(status=lambda report: int(not report.healthy))
def command(model: str | None, progress: Progress) -> "DoctorReport":
    """Check hardware, drivers, versions and settings, and MODEL if it is given.

    MODEL is a Keras model file (.keras, .h5), or FILE.py:function, which builds a model.

    Exit status: 0 without a problem, 1 with a problem, 2 if the model cannot be used.
    """
    from tfmp.checkup import doctor
    from tfmp.commands.inputs import NamedModel

    progress("checking")
    return doctor(NamedModel(model)() if model else None)

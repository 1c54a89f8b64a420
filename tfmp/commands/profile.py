"""`tfmp profile`."""

from typing import TYPE_CHECKING, Any

import click

from tfmp.commands import options as common
from tfmp.shared.progress import Progress

if TYPE_CHECKING:
    from tfmp.profiling import ProfileReport

# A slower step is measured so often again before it counts: other users of a machine come and go.
_REPEATS = 2


def _status(report: "ProfileReport") -> int:
    if report.against is not None and report.against.regressions:
        return 1
    return 0 if report.baseline else 2


@click.command("profile", cls=common.Command)
@common.model_argument
@common.data_option
@common.policies_option
@common.batch_size_option
@common.count_option("--rounds", "Number of timings of each policy.", default=10)
@common.count_option(
    "--steps", "Training steps in one timing. Default: as many as last a quarter of a second."
)
@click.option("--layers/--no-layers", default=True, help="Measure each layer too (the default).")
@click.option(
    "--roofline/--no-roofline",
    default=True,
    help="Compare with the device's peaks (the default).",
)
@common.keep_float32_option
@click.option(
    "--log-dir", metavar="FOLDER", help="Folder for the profiler's traces, for TensorBoard."
)
@click.option(
    "--save",
    metavar="FILE",
    help="Keep the measurements in a .json file, for --against of later runs.",
)
@click.option(
    "--against",
    metavar="FILE",
    help="Compare with the measurements that --save kept: a slower step, more memory or a lost "
    "Tensor Core path ends with status 1.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    help="Share by which a step may take longer, or need more memory, with --against. "
    "Default: 0.1.",
)
@common.reporting((".json", ".html"), status=_status)
def command(
    model: str,
    data: str,
    save: str | None,
    against: str | None,
    tolerance: float | None,
    progress: Progress,
    **options: Any,
) -> "ProfileReport":
    """Time the training step of MODEL under several policies, and say whether 16 bits pay.

    MODEL is a file of a compiled Keras model (.keras, .h5), or FILE.py:function, which
    builds and compiles a model. The file is not changed.

    Exit status: 0 if the step was measured, 1 if it became worse than --against, 2 if the model,
    the data or the file of --against cannot be used.
    """
    from tfmp.commands.inputs import NamedModel, load_training_data
    from tfmp.profiling import TOLERANCE, check_run, profile_training, read_baseline

    if tolerance is not None and against is None:
        raise ValueError(
            "--tolerance widens the comparison of --against: give both options, or leave "
            "--tolerance out."
        )
    tolerance = TOLERANCE if tolerance is None else tolerance
    if save is not None:
        common.check_reports([save], [".json"], click.get_current_context().params["force"])
    baseline = read_baseline(against) if against is not None else None
    if baseline is not None:
        check_run(baseline, tolerance)
    named = NamedModel(model)
    for _ in range(1 + _REPEATS):
        report = profile_training(
            named if named.is_function else named(),
            load_training_data(data),
            progress=progress,
            **options,  # named like its arguments
        )
        if baseline is None:
            break
        report = report.compared_with(baseline, tolerance)
        if not (report.against and report.against.only_slower):
            break
    if save is not None:
        report.save(save)
    return report

"""`tfmp profile`."""

import click

from tfmp.commands.options import (
    batch_size_option,
    check_reports,
    data_option,
    json_option,
    mistakes_end_the_command,
    parse_bytes,
    print_report,
    quiet_option,
    report_options,
)
from tfmp.commands.session import import_keras
from tfmp.precision import FIXED_POLICIES


@click.command("profile")
@click.argument("model", metavar="MODEL")
@data_option
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Choice(FIXED_POLICIES),
    help="A policy to measure; may be given several times. Default: float32 and mixed_float16.",
)
@batch_size_option
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="How many times each policy is timed.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    help="Training steps in one timing. Default: as many as last a quarter of a second.",
)
@click.option("--layers/--no-layers", default=True, help="Measure each layer too (the default).")
@click.option(
    "--keep-float32",
    multiple=True,
    metavar="NAME",
    help="Keep layers in float32: a name, a path or a regular expression. May be repeated.",
)
@click.option("--largest-batch", is_flag=True, help="Search for the largest batch that fits.")
@click.option(
    "--memory-limit",
    metavar="SIZE",
    callback=parse_bytes,
    help="What a step may need in that search, such as 2GiB. A CPU needs one.",
)
@click.option(
    "--log-dir", metavar="FOLDER", help="Write the profiler's traces there, for TensorBoard."
)
@report_options(".html or .json")
@quiet_option
@json_option
def command(
    model: str,
    data: str,
    policies: tuple[str, ...],
    batch_size: int,
    rounds: int,
    steps: int | None,
    layers: bool,
    keep_float32: tuple[str, ...],
    largest_batch: bool,
    memory_limit: int | None,
    log_dir: str | None,
    reports: tuple[str, ...],
    force: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Time the training step of MODEL under several policies, and say whether 16 bits pay.

    MODEL is a compiled Keras file (.keras, .h5) or package.module:function, which builds and
    compiles one. The model is not changed.

    Exit status: 0 measured, 2 on a model or data that cannot be used.
    """
    import_keras()
    from tfmp.profiling import SUFFIXES

    with mistakes_end_the_command():
        if memory_limit is not None and not largest_batch:
            raise ValueError("--memory-limit bounds --largest-batch; give both or neither.")
        check_reports(reports, SUFFIXES, force)
        from tfmp.commands.inputs import load_model_or_builder, load_training_data
        from tfmp.profiling import profile_training

        training_data = load_training_data(data)
        report = profile_training(
            load_model_or_builder(model),
            training_data,
            policies or ("float32", "mixed_float16"),
            batch_size=batch_size,
            rounds=rounds,
            steps=steps,
            layers=layers,
            keep_float32=keep_float32,
            largest_batch=largest_batch,
            memory_limit=memory_limit,
            log_dir=log_dir,
            progress=None if quiet else show_progress,
        )
        for path in reports:
            report.save(path)
    print_report(report, as_json)


def show_progress(text: str) -> None:
    """A line on stderr where a stage begins."""
    click.echo(f"{text} ...", err=True)

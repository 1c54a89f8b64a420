"""`tfmp profile`."""

import json
import re
from pathlib import Path
from typing import Any

import click

from tfmp.commands.session import import_keras

POLICIES = ("float32", "mixed_float16", "mixed_bfloat16", "float64")

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def parse_bytes(context: Any, parameter: Any, text: str | None) -> int | None:
    """Reads 2GiB, 512 MB (taken as MiB) or a plain number of bytes."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text, re.IGNORECASE)
    if not found or not float(found[1]):
        raise click.BadParameter(
            f"expected an amount of memory above 0 such as 2GiB or 512MiB, received {text!r}."
        )
    return int(float(found[1]) * _UNITS[found[2].lower()])


@click.command("profile")
@click.argument("model", metavar="MODEL")
@click.option(
    "--data",
    required=True,
    metavar="FILE",
    help="Training data: .npz with an array per model input and 'labels', or "
    "package.module:function, which returns (x, y) batches.",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Choice(POLICIES),
    help="A policy to measure; may be given several times. Default: float32 and mixed_float16.",
)
@click.option("--batch-size", type=click.IntRange(min=1), default=32, show_default=True)
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
@click.option(
    "--report",
    "reports",
    multiple=True,
    metavar="FILE",
    help="Write the report too: .html or .json. May be given several times.",
)
@click.option("--force", is_flag=True, help="Overwrite report files that exist.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(
    model: str,
    data: str,
    reports: tuple[str, ...],
    force: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Time the training step of MODEL under several policies, and say whether 16 bits pay.

    MODEL is a compiled Keras file (.keras, .h5) or package.module:function, which builds and
    compiles one. The model is not changed.

    Exit status: 0 measured, 2 on a model or data that cannot be used.
    """
    import_keras()
    from tfmp.profiling import check_profile_path

    try:
        if options["memory_limit"] is not None and not options["largest_batch"]:
            raise ValueError("--memory-limit bounds --largest-batch; give both or neither.")
        for path in reports:
            check_profile_path(path)
            if Path(path).exists() and not force:
                raise ValueError(f"{path!r} exists. Pass --force to overwrite it.")
        from tfmp.commands.inputs import load_model_or_builder, load_training_data
        from tfmp.profiling import profile_training

        policies = options.pop("policies") or ("float32", "mixed_float16")
        training_data = load_training_data(data)
        loaded = load_model_or_builder(model)
        progress = None if quiet else show_progress
        report = profile_training(loaded, training_data, policies, progress=progress, **options)
        for path in reports:
            report.save(path)
    except (TypeError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    click.echo(json.dumps(report.to_dict(), indent=2) if as_json else str(report))


def show_progress(text: str) -> None:
    """A line on stderr where a stage begins."""
    click.echo(f"{text} ...", err=True)

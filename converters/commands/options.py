"""The options of `tfmp-convert`: the flags of its commands, and the frozen objects they become."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from typing import Any

import click

from tfmp.converters.commands.config import load_config
from tfmp.converters.formats import PRECISIONS, Format
from tfmp.converters.shared.options import Option, options_of

Decorator = Callable[[Any], Any]

# Shells complete file names after these; what a name must be is said by those who read it.
PATH = click.Path()


@dataclass(frozen=True)
class Intake:
    """How the model is to be opened; each field is the option of its name."""

    batch_size: int | None = None
    input_shapes: tuple[str, ...] = ()
    signature: str | None = None
    custom_objects: tuple[str, ...] = ()
    unsafe_load: bool = False


@dataclass(frozen=True)
class Asked:
    """What is to be compared, how and where; each field is the option of its name.

    A command that lacks some of the options has their defaults.
    """

    data: str | None = None
    labels: str | None = None
    budget: tuple[str, ...] = ()
    reports: tuple[str, ...] = ()
    split: bool = False
    explain: bool = False
    reproduce: str | None = None
    device: str = "auto"
    emulate: str | None = None
    latency: bool = False
    ray: str | None = None
    workers: int | None = None


@dataclass(frozen=True)
class Shown:
    """What is printed and replaced; each field is the option of its name."""

    as_json: bool = False
    quiet: bool = False
    save_config: str | None = None
    force: bool = False


@dataclass(frozen=True)
class Written:
    """The files of a conversion.

    Attributes:
        output: of -o.
        precision: of --precision.
        options: those of the formats, by name.
    """

    output: str | None
    precision: str
    options: dict[str, Any] = field(default_factory=dict)


def typed(**groups: type) -> Decorator:
    """Hands a command its options as frozen objects, by the keyword of each."""

    def apply(command: Any) -> Any:
        @wraps(command)
        def call(**given: Any) -> Any:
            made: dict[str, Any] = {}
            for keyword, kind in groups.items():
                names = {item.name for item in fields(kind)} & set(given)
                made[keyword] = kind(**{name: given.pop(name) for name in names})
            return command(**given, **made)

        return call

    return apply


def _options(*decorators: Decorator) -> Decorator:
    """Several decorators as one, the first outermost."""

    def apply(command: Any) -> Any:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return apply


force = click.option("--force", is_flag=True, help="Replace outputs and reports that exist.")

_conversion = _options(
    click.option(
        "--precision",
        type=click.Choice(list(PRECISIONS)),
        default="fp16",
        show_default=True,
        help="Precision of the file. mixed (ONNX): FP16, with as few nodes in FP32 as keep the "
        "budget on --data.",
    ),
    force,
)

intake = _options(
    click.option(
        "--batch",
        "batch_size",
        type=click.IntRange(min=1),
        metavar="N",
        help="Fix the number of samples at a time [default: any for ONNX, 1 for TFLite].",
    ),
    click.option(
        "--input-shape",
        "input_shapes",
        metavar="NAME=SIZE,...",
        multiple=True,
        help="Fix the shape of an input, batch axis included, as in image=1,224,224,3. Repeatable.",
    ),
    click.option(
        "--signature",
        metavar="NAME",
        help="Which signature of a SavedModel [default: serving_default or serve; a TFLite file "
        "takes the others along].",
    ),
    click.option(
        "--custom-objects",
        metavar="PACKAGE.MODULE",
        multiple=True,
        help="Module that defines the model's custom classes. Repeatable.",
    ),
    click.option(
        "--unsafe-load",
        is_flag=True,
        help="Run Python code that the model file brings along (Lambda layers). Only for files "
        "you trust.",
    ),
)


def _of_formats(formats: Sequence[Format]) -> Decorator:
    """The options that the formats declare."""
    return _options(
        *(
            _declared(item.name, item.default, told)
            for format in formats
            for item, told in options_of(format.options)
        )
    )


def _declared(name: str, default: Any, told: Option) -> Decorator:
    """One option of a format, as click has it."""
    flag = f"--{(told.flag or name).replace('_', '-')}"
    about: dict[str, Any] = {"help": told.help}
    if isinstance(default, bool):
        about["is_flag"] = True
    elif isinstance(default, tuple):
        about |= {"multiple": True, "metavar": told.metavar}
    elif told.choices:
        about |= {"type": click.Choice(told.choices), "default": default, "show_default": True}
    else:  # numbers that have no default of their own
        about |= {"type": int, "metavar": told.metavar}
    return click.option(flag, name, **about)


_budget = click.option(
    "--budget",
    metavar="NAME=VALUE",
    multiple=True,
    help="Allowed drift, such as rel_l2=0.005 or flip_rate=0.02. Repeatable.",
)
_reports = click.option(
    "--report",
    "reports",
    type=PATH,
    metavar="FILE",
    multiple=True,
    help="Write the drift report: .json, .html, .md or .xml (JUnit). Repeatable.",
)

comparison = _options(
    click.option(
        "--data",
        type=PATH,
        metavar="DATA",
        help="Samples to compare on: .npz (one array per input, optionally `labels`), .npy, a "
        "folder of images in class folders, or package.module:function.",
    ),
    click.option(
        "--labels",
        type=PATH,
        metavar="FILE",
        help="Labels of the samples, if the data has none: .npy or .npz.",
    ),
    _budget,
    _reports,
    click.option(
        "--split",
        is_flag=True,
        help="Also measure where the drift comes from (FP32 file, FP16 weights, FP16 arithmetic) "
        "and how far float32 itself is from float64. Takes about three more runs.",
    ),
    click.option(
        "--explain",
        is_flag=True,
        help="Also find which layer the drift comes from, and the ten samples that drift most.",
    ),
    click.option(
        "--reproduce",
        type=PATH,
        metavar="DIR",
        help="Folder for the smallest model and input that show the worst error that --explain "
        "finds, with a script [default: beside the first report, if there is one].",
    ),
    click.option(
        "--device",
        type=click.Choice(["auto", "cpu", "gpu"]),
        default="auto",
        show_default=True,
        help="Where to compare. auto takes an NVIDIA GPU for ONNX files where CUDA works; the "
        "report says what was chosen.",
    ),
    click.option(
        "--emulate",
        metavar="PROFILE",
        help="What sums of FP16 ONNX files are held in where a CPU emulates them: gpu (FP32, the "
        "default of GPU kernels), pessimistic (FP16, rounded after every 16 terms) or "
        "pessimistic:BLOCK [default: gpu].",
    ),
    click.option(
        "--latency", is_flag=True, help="Also time single calls of the model and of every file."
    ),
    click.option(
        "--ray",
        metavar="ADDRESS|local",
        help="Compare on Ray's workers: local starts a Ray on this machine, auto and HOST:PORT "
        "take one that runs. The report is the same.",
    ),
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        help="How many workers --ray takes [default: as many as fit, with four CPUs each].",
    ),
)

inspection = _options(
    click.option(
        "--data",
        type=PATH,
        metavar="DATA",
        help="Samples to measure ranges on, in the forms that a conversion takes.",
    ),
    click.option(
        "--report",
        "reports",
        type=PATH,
        metavar="FILE",
        multiple=True,
        help="Write the audit: .json, or .html with a picture of every range. Repeatable.",
    ),
    force,
)

rejudging = _options(_budget, _reports, force)

shown = _options(
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout."),
    click.option("--quiet", "-q", is_flag=True, help="No progress and no table; the status tells."),
    click.option(
        "--config",
        type=PATH,
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=load_config,
        help="Take options from a TOML file: keys are their long names. The command line goes "
        "first.",
    ),
    click.option(
        "--save-config",
        type=PATH,
        metavar="FILE",
        help="Write the options that were given to a TOML file for --config, and run.",
    ),
)


def converting(
    formats: Sequence[Format], *, metavar: str, written: str, required: bool = False
) -> Decorator:
    """The argument and the options of a command that converts, as `typed` objects.

    Args:
        formats: that it writes.
        metavar: of --output.
        written: help on --output.
        required: whether --output is.
    """
    names = [item.name for format in formats for item, _ in options_of(format.options)]

    def gathered(command: Any) -> Any:
        @wraps(command)
        def call(**given: Any) -> Any:
            options = {name: given.pop(name) for name in names}
            files = Written(given.pop("output"), given.pop("precision"), options)
            return command(**given, written=files)

        return call

    return _options(
        click.argument("model", metavar="MODEL", type=PATH),
        click.option("-o", "--output", type=PATH, metavar=metavar, required=required, help=written),
        _conversion,
        _of_formats(formats),
        intake,
        comparison,
        shown,
        gathered,
        typed(intake=Intake, asked=Asked, shown=Shown),
    )

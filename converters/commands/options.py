"""The options of `tfmp-convert`: the flags of its commands, and the frozen objects they become."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from typing import Any

import click

from tfmp.converters.commands.config import load_config
from tfmp.converters.commands.guard import set_limit
from tfmp.converters.commands.kinds import Choices, Number
from tfmp.converters.formats import PRECISIONS, Format
from tfmp.converters.shared.options import Option, options_of
from tfmp.shared.commands import GroupedCommand
from tfmp.shared.wording import joined

Decorator = Callable[[Any], Any]

# Shells complete file names after these; what a name must be is said by those who read it.
PATH = click.Path()


@dataclass(frozen=True)
class Intake:
    """How the model is to be opened; each field is the option of its name."""

    batch_size: int | None = None
    input_shapes: tuple[str, ...] = ()
    sample_axes: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    signature: str | None = None
    custom_objects: tuple[str, ...] = ()
    unsafe_load: bool = False
    architecture: str | None = None
    max_memory: str | None = None


@dataclass(frozen=True)
class Asked:
    """The comparison that is asked for; each field is the option of its name.

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
    latency_batch_sizes: str | None = None
    ray: str | None = None
    workers: int | None = None
    tasks: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shown:
    """The printing and replacing that is asked for; each field is the option of its name."""

    as_json: bool = False
    quiet: bool = False
    verbose: bool = False
    save_config: str | None = None
    force: bool = False


@dataclass(frozen=True)
class Written:
    """The files of a conversion.

    Attributes:
        output: of -o.
        precision: of --precision.
        options: of the formats, by name.
    """

    output: str | None
    precision: str
    options: dict[str, Any] = field(default_factory=dict)


HEADINGS = {
    "Output": ("output", "force", "dynamic_batch", "opset", "external_data", "allow_flex"),
    "Precision": (
        *("precision", "repair", "keep_fp32", "target", "accumulate", "host_output_scaling"),
        *("fp16_io", "fp16_edges"),
    ),
    "Judging": ("data", "labels", "sizes", "budget", "tasks", "metrics"),
    "Reports": (
        *("reports", "as_json", "quiet", "verbose", "explain", "split", "reproduce"),
        *("latency", "latency_batch_sizes"),
    ),
    "Shapes": ("batch_size", "input_shapes", "sample_axes", "states"),
    "Loading": ("signature", "custom_objects", "architecture", "unsafe_load", "max_memory"),
    "Where to run": ("device", "emulate", "ray", "workers"),
}


class Command(GroupedCommand):
    """A command with its options below the headings of `tfmp-convert`."""

    headings = HEADINGS


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


force = click.option("--force", is_flag=True, help="Replace files that exist.")


def _precision(formats: Sequence[Format]) -> Decorator:
    """The option of the precision, with the meaning of mixed for these formats."""
    mixing = joined([format.title for format in formats if "mixed" in format.precisions])
    told = "Precision of the file."
    if mixing:
        told += f" mixed ({mixing}) keeps the fewest nodes in FP32 that the budget needs on --data"
        told += "." if all("mixed" in format.precisions for format in formats) else ""
    for format in formats:
        if "mixed" not in format.precisions:
            flags = "".join(f" with --{name}" for name in format.instead_of_mixed)
            told += (
                f"; {format.title} files are FP16, for mixed{flags}."
                if mixing
                else f" There is no bf16 and no mixed {format.title}: use fp16{flags}."
            )
    return click.option(
        "--precision", type=Choices(PRECISIONS), default="fp16", show_default=True, help=told
    )


intake = _options(
    click.option(
        "--batch",
        "batch_size",
        type=Number(),
        metavar="N",
        help="Batch size of the file [default: any; TFLite: 1].",
    ),
    click.option(
        "--input-shape",
        "input_shapes",
        metavar="NAME=SIZES",
        multiple=True,
        help="Shape of an input with its batch axis, as in image=1,224,224,3. Repeatable.",
    ),
    click.option(
        "--sample-axis",
        "sample_axes",
        metavar="NAME=AXIS",
        multiple=True,
        help="Axis of the samples, if not the first. Repeatable.",
    ),
    click.option(
        "--state",
        "states",
        metavar="INPUT=OUTPUT",
        multiple=True,
        help="Input that takes an OUTPUT of the call before; data holds sequences then. "
        "Repeatable.",
    ),
    click.option(
        "--signature",
        metavar="NAME",
        help="Signature of a SavedModel [default: serving_default or serve].",
    ),
    click.option(
        "--custom-objects",
        metavar="MODULE",
        multiple=True,
        help="Module that defines custom classes of the model. Repeatable.",
    ),
    click.option(
        "--unsafe-load",
        is_flag=True,
        help="Run Lambda layers and other code of a file that you trust.",
    ),
    click.option(
        "--architecture",
        metavar="FILE|FUNCTION",
        help="Builds the model whose weights MODEL holds: JSON of model.to_json(), or "
        "FILE.py:function that returns it.",
    ),
    click.option(
        "--max-memory",
        metavar="SIZE",
        callback=set_limit,
        help="Memory to stop at [default: 90 %].",
    ),
)


def _of_formats(formats: Sequence[Format]) -> Decorator:
    """The options that the formats declare; a name that several of them have is one option."""
    declared = {
        item.name: (item.default, told)
        for format in formats
        for item, told in options_of(format.options)
    }
    return _options(*(_declared(name, *about) for name, about in declared.items()))


def _declared(name: str, default: Any, told: Option) -> Decorator:
    """One option of a format, as click has it."""
    flag = f"--{(told.flag or name).replace('_', '-')}"
    about: dict[str, Any] = {"help": told.help}
    if isinstance(default, bool):
        about["is_flag"] = True
    elif isinstance(default, tuple):
        about |= {"multiple": True, "metavar": told.metavar}
    elif told.choices:
        about |= {"type": Choices(told.choices), "default": default, "show_default": True}
    else:  # numbers that have no default of their own
        about |= {"type": Number(), "metavar": told.metavar}
    return click.option(flag, name, **about)


_budget = click.option(
    "--budget",
    metavar="NAME=VALUE",
    multiple=True,
    help="Limit, such as flip_rate=0.02. Repeatable.",
)
_reports = click.option(
    "--report",
    "reports",
    type=PATH,
    metavar="FILE",
    multiple=True,
    help="Drift report: .json, .html, .md, .xml (JUnit), .card.md or .nodes.json. Repeatable.",
)

judged_for = click.option(
    "--target",
    metavar="RUNTIME",
    multiple=True,
    help="Runtime that ONNX files are judged for: ort-cuda, tensorrt, webgpu or all. Repeatable "
    "[default: that of the file, or ort-cuda].",
)

comparison = _options(
    click.option(
        "--data",
        type=PATH,
        metavar="DATA",
        help="Samples: an .npz file (an array for each input, and labels), an .npy file, a "
        "folder of images in class folders, or FILE.py:function.",
    ),
    click.option(
        "--labels",
        type=PATH,
        metavar="FILE",
        help="Labels that the data lacks: an .npy or .npz file.",
    ),
    click.option(
        "--task",
        "tasks",
        metavar="OUTPUT=KIND",
        multiple=True,
        help="Meaning of an output: classification[:axis=A], multilabel, binary, regression, "
        "embedding, detection[:columns=0-3], tokens, ids, reconstruction, angle[:period=360], "
        "quaternion[:columns=0-3] or other. Repeatable.",
    ),
    click.option(
        "--metric",
        "metrics",
        metavar="FUNCTION",
        multiple=True,
        help="FILE.py:function of predictions and labels. Repeatable.",
    ),
    click.option(
        "--sizes",
        metavar="INPUT=SIZE,...",
        multiple=True,
        help="Sizes to judge on, too, number of samples first, as in tokens=4,6000: samples "
        "made of the data's values, which can only make the verdict FAIL. Repeatable.",
    ),
    _budget,
    _reports,
    click.option(
        "--split",
        is_flag=True,
        help="Measure export, weights and arithmetic apart.",
    ),
    click.option(
        "--explain",
        is_flag=True,
        help="Find the layer to blame and the worst samples.",
    ),
    click.option(
        "--reproduce",
        type=PATH,
        metavar="DIR",
        help="Folder for the worst node of --explain, with a script [default: beside the first "
        "report].",
    ),
    click.option(
        "--device",
        type=Choices(["auto", "cpu", "gpu"]),
        default="auto",
        show_default=True,
        help="Device to compare on; auto takes CUDA for ONNX files where it works.",
    ),
    click.option(
        "--emulate",
        metavar="PROFILE",
        help="Arithmetic that a CPU emulates: gpu, pessimistic, ort-cuda, tensorrt, litert-gpu, "
        "litert-cpu or webgpu [default: the target, or ort-cuda].",
    ),
    click.option("--latency", is_flag=True, help="Time single calls."),
    click.option(
        "--latency-batch-sizes",
        metavar="N,N",
        help="Time calls of these sizes, and their memory.",
    ),
    click.option(
        "--ray",
        metavar="ADDRESS|local",
        help="Compare on workers of a Ray: local starts one here; auto and HOST:PORT take one "
        "that runs.",
    ),
    click.option(
        "--workers",
        type=Number(),
        metavar="N",
        help="Workers for --ray [default: one for four CPUs].",
    ),
)

inspection = _options(
    click.option(
        "--data",
        type=PATH,
        metavar="DATA",
        help="Samples to measure ranges on, in the forms of a conversion.",
    ),
    click.option(
        "--report",
        "reports",
        type=PATH,
        metavar="FILE",
        multiple=True,
        help="File for the audit: .json, or .html with a picture of every range. Repeatable.",
    ),
    force,
)

planning = _options(
    click.option(
        "--flip-rate",
        metavar="SHARE",
        help="Largest share of decisions that may change [default: 0.01, unless another limit is "
        "given].",
    ),
    click.option(
        "--accuracy-drop",
        metavar="SHARE",
        help="Largest drop of accuracy against labels, such as 0.01.",
    ),
    click.option(
        "--confidence",
        metavar="SHARE",
        default="0.95",
        show_default=True,
        help="One-sided confidence of each bound.",
    ),
    click.option(
        "--samples",
        type=Number(),
        metavar="N",
        help="Number of distinct samples that there are: also tell what these can show.",
    ),
)

rejudging = _options(_budget, _reports, force)

shown = _options(
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout."),
    click.option(
        "--quiet",
        "-q",
        is_flag=True,
        help="Print the verdict only, and no progress.",
    ),
    click.option(
        "--verbose",
        "-v",
        is_flag=True,
        help="Also print every check and note.",
    ),
    click.option(
        "--config",
        type=PATH,
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=load_config,
        help="TOML file with options by their long names.",
    ),
    click.option(
        "--save-config",
        type=PATH,
        metavar="FILE",
        help="TOML file for the options of this run.",
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
    names = {item.name for format in formats for item, _ in options_of(format.options)}

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
        _precision(formats),
        force,
        _of_formats(formats),
        intake,
        comparison,
        shown,
        gathered,
        typed(intake=Intake, asked=Asked, shown=Shown),
    )

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


def _precision(formats: Sequence[Format]) -> Decorator:
    """The option of the precision, with the meaning of mixed for these formats."""
    mixing = joined([format.title for format in formats if "mixed" in format.precisions])
    told = "Precision of the file."
    if mixing:
        told += f" bf16 ({mixing}) has the range of float32 and three bits less than FP16."
    if mixing:
        told += f" mixed ({mixing}) is FP16 with as few nodes in FP32 as the budget needs on --data"
        told += "." if all("mixed" in format.precisions for format in formats) else ""
    for format in formats:
        if "mixed" not in format.precisions:
            flags = "".join(f" with --{name}" for name in format.instead_of_mixed)
            told += (
                f"; {format.title} files are FP16 in place of bf16, and FP16{flags} in place of "
                "mixed."
                if mixing
                else f" {format.title} files have one: FP16{flags} serves in place of mixed."
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
        help="Number of samples that the file takes at a time [default: any for ONNX, 1 for "
        "TFLite].",
    ),
    click.option(
        "--input-shape",
        "input_shapes",
        metavar="NAME=SIZE,...",
        multiple=True,
        help="Fixed shape of an input, batch axis included, as in image=1,224,224,3. Repeatable.",
    ),
    click.option(
        "--sample-axis",
        "sample_axes",
        metavar="NAME=AXIS",
        multiple=True,
        help="Axis of the samples in an input or output whose first axis it is not, as in "
        "state=1. Repeatable.",
    ),
    click.option(
        "--state",
        "states",
        metavar="INPUT=OUTPUT",
        multiple=True,
        help="Input that takes the OUTPUT of the call before. Data then holds sequences, (samples, "
        "steps, ...), without the states. Repeatable.",
    ),
    click.option(
        "--signature",
        metavar="NAME",
        help="Signature of a SavedModel to convert [default: serving_default or serve; a TFLite "
        "file gets the others, too].",
    ),
    click.option(
        "--custom-objects",
        metavar="PACKAGE.MODULE",
        multiple=True,
        help="Python module that defines custom classes of the model. Repeatable.",
    ),
    click.option(
        "--unsafe-load",
        is_flag=True,
        help="Run code that the model file contains: Lambda layers, and operations of a SavedModel "
        "that do more than compute, such as reading a file. Only for files that you trust.",
    ),
    click.option(
        "--architecture",
        metavar="FILE.json|PACKAGE.MODULE:FUNCTION",
        help="Architecture for a MODEL that is a file of weights: the JSON of model.to_json(), or "
        "a function that returns the model [default: the JSON file named like MODEL].",
    ),
    click.option(
        "--max-memory",
        metavar="SIZE",
        callback=set_limit,
        help="Memory that the command may take before it is stopped, as in 8G. A damaged file may "
        "ask for any amount [default: nine tenths of the machine's].",
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
    help="Limit of the drift, such as rel_l2=0.005 or flip_rate=0.02. Repeatable.",
)
_reports = click.option(
    "--report",
    "reports",
    type=PATH,
    metavar="FILE",
    multiple=True,
    help="File for the drift report: .json, .html, .md, .xml (JUnit), .card.md (for model cards) "
    "or .nodes.json (the errors of --explain, for Model Explorer). Repeatable.",
)

judged_for = click.option(
    "--target",
    metavar="RUNTIME",
    multiple=True,
    help="Runtime that the ONNX files are judged for: ort-cuda, tensorrt, webgpu, or all; "
    "each has a line of its own. Repeatable [default: that of the file, or ort-cuda].",
)

comparison = _options(
    click.option(
        "--data",
        type=PATH,
        metavar="DATA",
        help="Samples to compare on: an .npz file (one array for each input, and labels if there "
        "are any), an .npy file, a folder of images in class folders, or package.module:function.",
    ),
    click.option(
        "--labels",
        type=PATH,
        metavar="FILE",
        help="Labels of the samples, if the data lacks them: an .npy or .npz file.",
    ),
    click.option(
        "--task",
        "tasks",
        metavar="OUTPUT=KIND[:DETAILS]",
        multiple=True,
        help="Meaning of an output, where the model does not tell it: classification, multilabel, "
        "binary, regression, embedding, detection, tokens, ids, reconstruction or other. DETAILS "
        "are axis=A, the axis of the classes, or columns=0-3, the corners of boxes. Repeatable.",
    ),
    click.option(
        "--metric",
        "metrics",
        metavar="PACKAGE.MODULE:FUNCTION",
        multiple=True,
        help="Metric of your own, such as mAP or WER: a function of predictions and labels. The "
        "drift report compares its values for both models. Repeatable.",
    ),
    _budget,
    _reports,
    click.option(
        "--split",
        is_flag=True,
        help="Also measure the share of each step in the drift (FP32 file, FP16 weights, FP16 "
        "arithmetic) and the distance of float32 itself from float64. Takes about three more "
        "runs.",
    ),
    click.option(
        "--explain",
        is_flag=True,
        help="Also find the layer that the drift comes from, and the ten samples that drift most.",
    ),
    click.option(
        "--reproduce",
        type=PATH,
        metavar="DIR",
        help="Folder for the worst error that --explain finds, as the smallest model and input "
        "that show it, with a script [default: beside the first report, if there is one].",
    ),
    click.option(
        "--device",
        type=Choices(["auto", "cpu", "gpu"]),
        default="auto",
        show_default=True,
        help="Device to compare on. auto takes an NVIDIA GPU for ONNX files where CUDA works; the "
        "report names the device that was chosen.",
    ),
    click.option(
        "--emulate",
        metavar="PROFILE",
        help="Arithmetic that a CPU emulates for FP16 ONNX files: gpu (sums in FP32), pessimistic "
        "(sums in FP16, rounded after every 16 terms; pessimistic:BLOCK for another number), or a "
        "runtime: ort-cuda (ort-cuda:VERSION), tensorrt, litert-gpu, litert-cpu or webgpu "
        "[default: the target of the file, or ort-cuda].",
    ),
    click.option(
        "--latency", is_flag=True, help="Also time single calls of the model and of each file."
    ),
    click.option(
        "--latency-batch-sizes",
        metavar="N,N",
        help="Batch sizes, such as 1,8,32, to time calls of each file with, and to measure their "
        "memory. A Keras model is timed in float32 and in mixed precision.",
    ),
    click.option(
        "--ray",
        metavar="ADDRESS|local",
        help="Address of a Ray whose workers compare: local starts a Ray on this machine, auto and "
        "HOST:PORT take one that runs. The report is the same.",
    ),
    click.option(
        "--workers",
        type=Number(),
        metavar="N",
        help="Number of workers for --ray [default: as many as fit, with four CPUs each].",
    ),
)

inspection = _options(
    click.option(
        "--data",
        type=PATH,
        metavar="DATA",
        help="Samples to measure ranges on, in the same forms as for a conversion.",
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
        help="Also print every check, the meaning of each output, and notes on the files.",
    ),
    click.option(
        "--config",
        type=PATH,
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=load_config,
        help="TOML file to take options from; its keys are their long names. Options on the "
        "command line overrule it.",
    ),
    click.option(
        "--save-config",
        type=PATH,
        metavar="FILE",
        help="TOML file for the options of this run, to use with --config later.",
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

"""The options of `tfmp-convert`: fields of frozen objects, which declare their flags."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from functools import wraps
from typing import Any

import click

from tfmp.converters.commands.config import load_config
from tfmp.converters.commands.guard import set_limit
from tfmp.converters.formats import PRECISIONS, Format
from tfmp.converters.shared.options import Option, option, options_of
from tfmp.shared.commands import GroupedCommand

Decorator = Callable[[Any], Any]

# Shells complete file names after these; what a name must be is said by those who read it.
PATH = click.Path()


@dataclass(frozen=True)
class Intake:
    """How the model is to be opened."""

    batch: int | None = option(
        None, "Batch size of the file [default: any; TFLite: 1].", metavar="N"
    )
    input_shape: tuple[str, ...] = option(
        (),
        "Shape of an input with its batch axis, as in image=1,224,224,3. Repeatable.",
        metavar="NAME=SIZES",
    )
    sample_axis: tuple[str, ...] = option(
        (), "Axis of the samples if not 0, or none. Repeatable.", metavar="NAME=AXIS"
    )
    state: tuple[str, ...] = option(
        (),
        "Streaming: INPUT takes OUTPUT of the call before; --data holds sequences. Repeatable.",
        metavar="INPUT=OUTPUT",
    )
    signature: str | None = option(
        None, "Signature of a SavedModel [default: serving_default or serve].", metavar="NAME"
    )
    custom_objects: tuple[str, ...] = option(
        (), "Module that defines custom classes of the model. Repeatable.", metavar="MODULE"
    )
    unsafe_load: bool = option(False, "Run Lambda layers and other code of a file that you trust.")
    architecture: str | None = option(
        None,
        "Architecture for weights alone: JSON of model.to_json(), or FILE.py:function.",
        metavar="FILE|FUNCTION",
    )
    max_memory: str | None = option(
        None,
        "Memory limit, as in 8G [default: 90 % of all].",
        metavar="SIZE",
        callback=set_limit,
    )


@dataclass(frozen=True)
class Asked:
    """The comparison that is asked for; a command that lacks some of it has the defaults."""

    data: str | None = option(
        None,
        "Samples: an .npz file (an array for each input, and labels), an .npy file, a folder of "
        "images in class folders, or FILE.py:function.",
        metavar="DATA",
        path=True,
    )
    labels: str | None = option(
        None, "Labels, if the data has none: an .npy or .npz file.", metavar="FILE", path=True
    )
    budget: tuple[str, ...] = option(
        (), "Limit to keep, such as flip_rate=0.02. Repeatable.", metavar="NAME=VALUE"
    )
    report: tuple[str, ...] = option(
        (),
        "Drift report: .json, .html, .md or .xml (JUnit). Repeatable.",
        metavar="FILE",
        path=True,
    )
    split: bool = option(False, "Measure the drift of export, FP16 weights and FP16 arithmetic.")
    explain: bool = option(False, "Find the layer that adds most drift, and the worst samples.")
    reproduce: str | None = option(
        None,
        "Folder for a script that shows the error of --explain [default: beside the first report].",
        metavar="DIR",
        path=True,
    )
    device: str = option(
        "auto",
        "Device to compare on; auto takes CUDA for ONNX files where it works.",
        choices=("auto", "cpu", "gpu"),
    )
    emulate: str | None = option(
        None,
        "Arithmetic that a CPU emulates: gpu, pessimistic, ort-cuda, tensorrt, litert-gpu, "
        "litert-cpu or webgpu [default: the target, or ort-cuda].",
        metavar="PROFILE",
    )
    latency: bool = option(False, "Time single calls.")
    latency_batch_sizes: str | None = option(
        None, "Time calls of N samples each, and their memory.", metavar="N,N"
    )
    ray: str | None = option(
        None,
        "Compare on a Ray cluster: local starts one here, auto or HOST:PORT joins one.",
        metavar="ADDRESS|local",
    )
    workers: int | None = option(None, "Ray workers [default: one for four CPUs].", metavar="N")
    task: tuple[str, ...] = option(
        (),
        "Meaning of an output: classification[:axis=A], multilabel, binary, regression, "
        "embedding, detection[:columns=0-3], tokens, ids, reconstruction, angle[:period=360], "
        "quaternion[:columns=0-3] or other. Repeatable.",
        metavar="OUTPUT=KIND",
    )
    metric: tuple[str, ...] = option(
        (),
        "Metric of your own: FILE.py:function of predictions and labels. Repeatable.",
        metavar="FUNCTION",
    )
    sizes: tuple[str, ...] = option(
        (),
        "Also judge synthetic samples of these sizes, batch first, such as tokens=4,6000. They "
        "can only FAIL. Repeatable.",
        metavar="INPUT=SIZE,...",
    )


@dataclass(frozen=True)
class Limits:
    """The limits that `plan` finds numbers of samples for."""

    flip_rate: str | None = option(
        None,
        "Largest share of decisions that may change [default: 0.01, unless another limit is "
        "given].",
        metavar="SHARE",
    )
    accuracy_drop: str | None = option(
        None, "Largest drop of accuracy against labels, such as 0.01.", metavar="SHARE"
    )
    confidence: str = option("0.95", "One-sided confidence of each bound.", metavar="SHARE")
    samples: int | None = option(
        None, "Number of distinct samples that you have: also tell what these prove.", metavar="N"
    )


@dataclass(frozen=True)
class Shown:
    """The printing and replacing that is asked for."""

    json: bool = option(False, "Print one JSON document on stdout.")
    quiet: bool = option(False, "Print the verdict only, and no progress.", short="-q")
    verbose: bool = option(False, "Also print every check and note.", short="-v")
    config: str | None = option(
        None,
        "Read options from a TOML file; keys are their long names.",
        metavar="FILE",
        path=True,
        callback=load_config,
    )
    save_config: str | None = option(
        None, "Write the options of this run to a TOML file.", metavar="FILE", path=True
    )
    force: bool = option(False, "Replace files that exist.")


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
    "Judging": (
        *("data", "labels", "sizes", "budget", "task", "metric"),
        *("flip_rate", "accuracy_drop", "confidence", "samples"),
    ),
    "Reports": (
        *("report", "json", "quiet", "verbose", "explain", "split", "reproduce"),
        *("latency", "latency_batch_sizes"),
    ),
    "Shapes": ("batch", "input_shape", "sample_axis", "state"),
    "Loading": ("signature", "custom_objects", "architecture", "unsafe_load", "max_memory"),
    "Where to run": ("device", "emulate", "ray", "workers"),
}


class Command(GroupedCommand):
    """A command with its options below the headings of `tfmp-convert`."""

    headings = HEADINGS


@dataclass(frozen=True)
class Part:
    """Some of the options of a dataclass.

    Attributes:
        kind: the dataclass.
        helps: its fields, each with its help text here; "" for the field's own.
    """

    kind: type
    helps: Mapping[str, str]


AUDITED = Part(
    Asked,
    {
        "data": "Samples to measure ranges on, in any form that a conversion takes.",
        "report": "File for the audit: .json, or .html with every range. Repeatable.",
    },
)

REJUDGED = Part(Asked, {"budget": "", "report": ""})


def takes(**groups: type | Part) -> Decorator:
    """Gives a command the options of dataclasses, which it gets as objects by these keywords."""

    def apply(command: Any) -> Any:
        parts = {
            key: one
            if isinstance(one, Part)
            else Part(one, {item.name: "" for item in fields(one)})
            for key, one in groups.items()
        }

        @wraps(command)
        def call(**given: Any) -> Any:
            made = {
                key: part.kind(**{name: given.pop(name) for name in part.helps})
                for key, part in parts.items()
            }
            return command(**given, **made)

        declared = [
            _click_option(item, replace(told, help=part.helps[item.name] or told.help))
            for part in parts.values()
            for item, told in options_of(part.kind)
            if item.name in part.helps
        ]
        return _decorated(call, declared)

    return apply


def _decorated(command: Any, decorators: Sequence[Decorator]) -> Any:
    """The command with all of the decorators, the first outermost."""
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def _click_option(item: Field[Any], told: Option) -> Decorator:
    """One option as click has it."""
    flags = [f"--{(told.flag or item.name).replace('_', '-')}", *filter(None, [told.short])]
    about: dict[str, Any] = {
        "help": told.help,
        "metavar": told.metavar,
        "callback": told.callback,
        "is_eager": told.callback is not None,
        "default": item.default,
        "show_default": isinstance(item.default, str),
        "multiple": isinstance(item.default, tuple),
    }
    if isinstance(item.default, bool):
        about["is_flag"] = True
    elif told.choices:
        about["type"] = click.Choice(told.choices)
    elif item.type == int | None:
        about["type"] = int
    elif told.path:
        about["type"] = PATH
    return click.option(*flags, item.name, **about)


judged_for = click.option(
    "--target",
    metavar="RUNTIME",
    multiple=True,
    help="Runtime that ONNX files are judged for: ort-cuda, tensorrt, webgpu or all. Repeatable "
    "[default: that of the file, or ort-cuda].",
)


def converting(
    formats: Sequence[Format], *, metavar: str, written: str, required: bool = False
) -> Decorator:
    """The argument and the options of a command that converts.

    Args:
        formats: that it writes.
        metavar: of --output.
        written: help on --output.
        required: whether --output is.
    """
    # A name that several formats have is one option.
    declared = {about[0].name: about for one in formats for about in options_of(one.options)}
    precision: dict[str, Any] = {"type": click.Choice(PRECISIONS), "show_default": True}
    precision["help"] = " ".join(["Precision of the file.", *(one.mixing for one in formats)])

    def apply(command: Any) -> Any:
        @wraps(command)
        def call(**given: Any) -> Any:
            options = {name: given.pop(name) for name in declared}
            files = Written(given.pop("output"), given.pop("precision"), options)
            return command(**given, written=files)

        output: dict[str, Any] = {"metavar": metavar, "required": required, "help": written}
        decorators = [
            click.argument("model", metavar="MODEL", type=PATH),
            click.option("-o", "--output", type=PATH, **output),
            click.option("--precision", default="fp16", **precision),
            *(_click_option(*about) for about in declared.values()),
        ]
        return _decorated(takes(intake=Intake, asked=Asked, shown=Shown)(call), decorators)

    return apply

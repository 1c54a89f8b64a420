"""The options of `tfmp-convert`, in groups that its commands share."""

from collections.abc import Callable
from typing import Any

import click

from tfmp.converters.commands.config import load_config

Decorator = Callable[[Any], Any]

# Shells complete file names after these; what a name must be is said by those who read it.
PATH = click.Path()


def _group(*decorators: Decorator) -> Decorator:
    def apply(command: Any) -> Any:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return apply


force = click.option("--force", is_flag=True, help="Replace outputs and reports that exist.")

conversion = _group(
    click.option(
        "--precision",
        type=click.Choice(["fp16", "mixed", "fp32"]),
        default="fp16",
        show_default=True,
        help="Precision of the file. mixed (ONNX): FP16, with as few nodes in FP32 as keep the "
        "budget on --data.",
    ),
    force,
)

intake = _group(
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

onnx_file = _group(
    click.option(
        "--keep-fp32",
        multiple=True,
        metavar="REGEX",
        help="Regular expression: nodes, Keras layers or op types that stay in FP32. Repeatable.",
    ),
    click.option(
        "--opset",
        type=int,
        metavar="N",
        help="Version of the ONNX operator set, 13 to 23 [default: 18].",
    ),
    click.option(
        "--external-data",
        is_flag=True,
        help="Write weights to a second file beside the ONNX file, as always past 2 GiB.",
    ),
    click.option(
        "--target",
        type=click.Choice(["any", "cpu", "cuda", "tensorrt"]),
        default="any",
        show_default=True,
        help="Where the ONNX file is taken. Ops without an FP16 kernel in ONNX Runtime's CUDA "
        "provider or in TensorRT stay in FP32 there; with any, only what some runtime could not "
        "load.",
    ),
    click.option(
        "--fp16-io",
        is_flag=True,
        help="Let the ONNX file's float32 inputs and outputs be float16.",
    ),
)

tflite_file = _group(
    click.option("--dynamic", is_flag=True, help="Let the TFLite file take any number of samples."),
    click.option(
        "--accumulate",
        type=click.Choice(["fp32", "fp16"]),
        default="fp32",
        show_default=True,
        help="Sums that the TFLite file allows: with fp16, ARM CPUs that have FP16 arithmetic "
        "compute in it throughout; with fp32 they compute in FP32. GPUs compute in FP16 anyway.",
    ),
    click.option(
        "--allow-flex",
        is_flag=True,
        help="Keep ops that TFLite lacks as TensorFlow ops: the file then needs the Flex delegate "
        "and runs neither in plain LiteRT nor on a GPU.",
    ),
    click.option(
        "--repair",
        is_flag=True,
        help="Rewrite what overflows in FP16 on --data so that it fits: values are kept smaller by "
        "powers of two, masks finite. What the model computes in FP32 stays the same.",
    ),
)

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

validation = _group(
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

inspection = _group(
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

rejudging = _group(_budget, _reports, force)

output = _group(
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
    *formats: Decorator, metavar: str, written: str, required: bool = False
) -> Decorator:
    """The argument and the options of a command that converts.

    Args:
        formats: options of the formats that it writes.
        metavar: of --output.
        written: help on --output.
        required: whether --output is.
    """
    return _group(
        click.argument("model", metavar="MODEL", type=PATH),
        click.option("-o", "--output", type=PATH, metavar=metavar, required=required, help=written),
        conversion,
        *formats,
        intake,
        validation,
        output,
    )

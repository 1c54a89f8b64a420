"""`tfmp-convert`: the command line of the converters.

Only click is imported here, so that `--help` answers at once; each command imports what it runs.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tfmp.converters.errors import InputError

if TYPE_CHECKING:
    from tfmp.converters.pipeline import Artifact
    from tfmp.converters.report.model import DriftReport

EXIT_BAD_INPUT = 2

_EPILOG = """\
Exit status: 0 PASS or converted, 1 FAIL (drift over budget), 2 bad usage or input, 3 INCONCLUSIVE
(too little data to certify).
"""


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_EPILOG,
    no_args_is_help=True,
)
@click.version_option(package_name="tfmp")
def main() -> None:
    """Convert a Keras model to static FP16 ONNX or TFLite, and measure what that cost.

    \b
    tfmp-convert all model.keras -o out/ --data test.npz --report out/drift.html
    tfmp-convert onnx model.keras
    tfmp-convert validate model.keras out/model.onnx --data test.npz
    """


def _options(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def apply(command: Any) -> Any:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return apply


_conversion = _options(
    click.option(
        "--precision",
        type=click.Choice(["fp16", "fp32"]),
        default="fp16",
        show_default=True,
        help="Precision of the file.",
    ),
    click.option("--force", is_flag=True, help="Replace outputs that exist."),
)

_KEEP_FP32_HELP = (
    "Regular expression: nodes, Keras layers or op types that stay in FP32. Repeatable."
)

_intake = _options(
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
    click.option("--signature", metavar="NAME", help="Which signature of a SavedModel."),
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

_onnx_file = _options(
    click.option("--keep-fp32", multiple=True, metavar="REGEX", help=_KEEP_FP32_HELP),
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
)

_tflite_file = _options(
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
)

_validation = _options(
    click.option(
        "--data",
        metavar="DATA",
        help="Samples to compare on: .npz (one array per input, optionally `labels`), .npy, a "
        "folder of images in class folders, or package.module:function.",
    ),
    click.option(
        "--labels", metavar="FILE", help="Labels of the samples, if the data has none: .npy."
    ),
    click.option(
        "--budget",
        metavar="NAME=VALUE",
        multiple=True,
        help="Allowed drift, such as rel_l2=0.005 or flip_rate=0.02. Repeatable.",
    ),
    click.option(
        "--report",
        "reports",
        metavar="FILE",
        multiple=True,
        help="Write the drift report: .json, .html, .md or .xml (JUnit). Repeatable.",
    ),
)

_output = _options(
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout."),
    click.option("--quiet", "-q", is_flag=True, help="No progress and no table; the status tells."),
)


@main.command("onnx")
@click.argument("model", metavar="MODEL")
@click.option("-o", "--output", metavar="FILE", help="Output file [default: MODEL.onnx].")
@_conversion
@_onnx_file
@_intake
@_validation
@_output
def onnx_command(model: str, output: str | None, **options: Any) -> None:
    """Convert MODEL (.keras, .h5, SavedModel, .onnx) to ONNX; with --data, validate the result."""
    _convert_and_report(model, {"onnx": output}, options)


@main.command("tflite")
@click.argument("model", metavar="MODEL")
@click.option("-o", "--output", metavar="FILE", help="Output file [default: MODEL.tflite].")
@_conversion
@_tflite_file
@_intake
@_validation
@_output
def tflite_command(model: str, output: str | None, **options: Any) -> None:
    """Convert MODEL (.keras, .h5, SavedModel) to TFLite; with --data, validate the result."""
    _convert_and_report(model, {"tflite": output}, options)


@main.command("all")
@click.argument("model", metavar="MODEL")
@click.option("-o", "--output", metavar="DIR", required=True, help="Folder for the files.")
@_conversion
@_onnx_file
@_tflite_file
@_intake
@_validation
@_output
def all_command(model: str, output: str, **options: Any) -> None:
    """Convert MODEL to ONNX and TFLite; with --data, validate both in one run."""
    folder = Path(output)
    stem = Path(model).stem
    targets = {"onnx": str(folder / f"{stem}.onnx"), "tflite": str(folder / f"{stem}.tflite")}
    _convert_and_report(model, targets, options)


@main.command("validate")
@click.argument("reference", metavar="REFERENCE")
@click.argument("candidates", metavar="CANDIDATE...", nargs=-1, required=True)
@_intake
@_validation
@_output
def validate_command(reference: str, candidates: tuple[str, ...], **options: Any) -> None:
    """Measure how far CANDIDATE files are from the float32 REFERENCE model."""
    with _session(options) as progress:
        data, labels, budget = _evidence(options)
        if data is None:
            raise InputError("validate needs samples: give them with --data FILE.")
        source = _open(reference, options, progress)
        from tfmp.converters.validation import validate

        report = validate(source, list(candidates), data, labels, budget, progress=progress)
        _save_reports(report, options["reports"])
    _print_report(report, [], options)
    sys.exit(report.verdict.exit_status)


def _convert_and_report(
    model: str, targets: dict[str, str | None], options: dict[str, Any]
) -> None:
    """Converts to every target from one loaded model, validates all at once, and prints."""
    with _session(options) as progress:
        data, labels, budget = _evidence(options)
        from tfmp.converters.pipeline import check_conversion, convert
        from tfmp.converters.validation import prepare_data, validate

        paths = {
            to: check_conversion(model, to, output, options["force"])
            for to, output in targets.items()
        }
        source = _open(model, options, progress)
        dataset = prepare_data(source, data, labels, budget) if data is not None else None
        artifacts = [
            convert(
                source,
                to,
                path,
                options["precision"],
                force=options["force"],
                progress=progress,
                **_format_options(to, options),
            )
            for to, path in paths.items()
        ]
        report = None
        if dataset is not None:
            report = validate(source, artifacts, dataset, budget=budget, progress=progress)
            _save_reports(report, options["reports"])
    _print_report(report, artifacts, options)
    sys.exit(report.verdict.exit_status if report else 0)


def _format_options(to: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options of one format, by the names that `convert` gives them."""
    if to == "onnx":
        return {name: options[name] for name in ("keep_fp32", "opset", "external_data")}
    if options["dynamic"] and options["batch_size"] is not None:
        raise InputError(
            f"--dynamic lets the file take any number of samples, --batch {options['batch_size']} "
            "fixes it: give one of them."
        )
    return {
        "dynamic_batch": options["dynamic"],
        "accumulate": options["accumulate"],
        "allow_flex": options["allow_flex"],
    }


def _open(model: str, options: dict[str, Any], progress: Callable[[str], None]) -> Any:
    """Opens the model as the intake options say."""
    from tfmp.converters.intake import check_model_file, open_source

    check_model_file(Path(model))
    shapes = dict(_shape(text) for text in options["input_shapes"])
    progress("loading the model")
    if not model.endswith(".onnx"):
        _import_tensorflow()
    return open_source(
        model,
        signature=options["signature"],
        custom_objects=_custom_objects(options["custom_objects"]),
        unsafe_load=options["unsafe_load"],
        batch_size=options["batch_size"],
        input_shapes=shapes,
    )


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, equals, sizes = text.rpartition("=")
    try:
        shape = tuple(int(size) for size in sizes.split(","))
    except ValueError:
        shape = ()
    if not equals or not name or not shape:
        raise InputError(
            f"--input-shape {text!r} is not NAME=SIZE,SIZE,...; write it as in image=1,224,224,3."
        )
    return name, shape


def _custom_objects(modules: Sequence[str]) -> dict[str, Any]:
    """Everything public that the named modules define."""
    import importlib

    found: dict[str, Any] = {}
    if modules:
        sys.path.insert(0, "")  # a module beside the model, as with `python -m`
    for name in modules:
        try:
            module = importlib.import_module(name)
        except Exception as error:  # a user's module may raise anything
            raise InputError(
                f"--custom-objects {name}: cannot be imported ({type(error).__name__}: {error}). "
                "Name it as `import` would, from a folder on PYTHONPATH or the working directory."
            ) from error
        found |= {key: value for key, value in vars(module).items() if key[0] != "_"}
    return found


@contextmanager
def _session(options: dict[str, Any]) -> Iterator[Callable[[str], None]]:
    """Progress on a terminal's stderr; the user's mistakes as one message and exit status 2."""
    import os

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # Conversion traces with TensorFlow, whatever backend the model was trained on.
    os.environ["KERAS_BACKEND"] = "tensorflow"
    from rich.console import Console

    console = Console(stderr=True)
    status = console.status("starting") if console.is_terminal and not options["quiet"] else None
    try:
        if status:
            status.start()
        yield status.update if status else lambda text: None
    except InputError as error:
        if status:
            status.stop()
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_BAD_INPUT)
    finally:
        if status:
            status.stop()


def _import_tensorflow() -> None:
    """Imports TensorFlow without what its C++ prints on every start; errors still show."""
    import os
    import tempfile

    with tempfile.TemporaryFile() as held:
        stderr = os.dup(2)
        os.dup2(held.fileno(), 2)
        try:
            import tensorflow  # noqa: F401
        except BaseException:
            held.seek(0)
            os.write(stderr, held.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def _evidence(options: dict[str, Any]) -> tuple[str | None, str | None, Any]:
    """Checks the options of a validation before any model is loaded."""
    from tfmp.converters.drift.budget import DriftBudget
    from tfmp.converters.report.model import check_path

    for report in options["reports"]:
        check_path(report)
    budget = DriftBudget.parse(options["budget"])
    data, labels = options["data"], options["labels"]
    if data is None and (labels or options["reports"] or options["budget"]):
        raise InputError(
            "--labels, --report and --budget need samples to compare on: give them with "
            "--data FILE."
        )
    return data, labels, budget


def _save_reports(report: "DriftReport", paths: Sequence[str]) -> None:
    for path in paths:
        report.save(path)


def _print_report(
    report: "DriftReport | None", artifacts: Sequence["Artifact"], options: dict[str, Any]
) -> None:
    if options["as_json"]:
        click.echo(json.dumps(_document(report, artifacts), indent=2))
        return
    if options["quiet"]:
        return
    from rich.console import Console

    console = Console()
    for artifact in artifacts:
        size = f"{artifact.size_bytes / 1e3:,.1f} kB"
        console.print(f"{artifact.path}  {artifact.precision}  {size}", highlight=False)
        for note in artifact.notes:
            console.print(f"  {note}", highlight=False, markup=False)
    if report is None:
        console.print("Not validated: give samples with --data to measure the drift.")
        return
    from tfmp.converters.report.terminal import print_report

    print_report(report, console)
    for path in options["reports"]:
        console.print(f"report: {path}", highlight=False)


def _document(report: "DriftReport | None", artifacts: Sequence["Artifact"]) -> dict[str, Any]:
    """The drift report itself; after a conversion, with the files that were written."""
    document = report.to_dict() if report else {}
    if artifacts:
        document["artifacts"] = [
            {
                "path": str(artifact.path),
                "format": artifact.format,
                "precision": artifact.precision,
                "size_bytes": artifact.size_bytes,
                "sha256": artifact.sha256,
                "notes": list(artifact.notes),
            }
            for artifact in artifacts
        ]
    return document

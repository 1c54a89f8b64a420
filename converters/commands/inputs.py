"""What the options of a command ask for: a model that is open, a budget, the choices of a format.

Everything that can be wrong with an option is told here, before a model is loaded.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfmp.converters.commands.session import Progress, import_tensorflow
from tfmp.converters.shared.errors import InputError

if TYPE_CHECKING:
    from tfmp.converters.choices import Options


def open_model_file(
    model: str, options: dict[str, Any], progress: Callable[[str], None], several: bool = False
) -> Any:
    """Opens the model as the intake options say; `several` as in `open_source`."""
    from tfmp.converters.intake import check_model_file, open_source

    check_model_file(Path(model))
    shapes = _shapes(options["input_shapes"])
    progress("loading the model")
    if not model.endswith(".onnx"):
        import_tensorflow()
    return open_source(
        model,
        signature=options["signature"],
        several=several,
        custom_objects=_custom_objects(options["custom_objects"]),
        unsafe_load=options["unsafe_load"],
        batch_size=options["batch_size"],
        input_shapes=shapes,
    )


def _shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, shape = _shape(text)
        if name in shapes:
            raise InputError(f"--input-shape {text!r}: {name!r} has a shape already. Give one.")
        shapes[name] = shape
    return shapes


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


def format_options(to: str, options: dict[str, Any]) -> "Options":
    """The options of one format."""
    from tfmp.converters.choices import TFLiteOptions, check_precision, choices_of

    if to == "onnx":
        names = ("keep_fp32", "opset", "external_data", "fp16_io", "target")
        choices = choices_of(to, {name: options[name] for name in names})
        check_precision(options["precision"], choices, options["data"])
        return choices
    if options["precision"] == "mixed":
        raise InputError(
            "--precision mixed is for ONNX files: TFLite's GPU path computes a whole file in one "
            "precision. Use `tfmp-convert onnx`, or --precision fp16."
        )
    if options["dynamic"] and options["batch_size"] is not None:
        raise InputError(
            f"--dynamic lets the file take any number of samples, --batch {options['batch_size']} "
            "fixes it: give one of them."
        )
    if options["repair"] and options["data"] is None:
        raise InputError("--repair measures what overflows on samples: give them with --data.")
    tflite = TFLiteOptions(
        dynamic_batch=options["dynamic"],
        accumulate=options["accumulate"],
        allow_flex=options["allow_flex"],
        repair=options["repair"],
    )
    check_precision(options["precision"], tflite, options["data"])
    return tflite


def check_reports(options: dict[str, Any]) -> None:
    """Raises `InputError` if a report could not be written, or would replace something."""
    from tfmp.converters.report import check_path
    from tfmp.converters.shared.files import check_output

    def check(text: str) -> None:
        path = check_path(text)
        check_output(path, path.suffix.lower(), options["force"])

    check_paths(options["reports"], check)


def check_paths(paths: Sequence[str], check: Callable[[str], None]) -> None:
    """Checks each path of a report; raises `InputError` for one that is given twice."""
    taken: set[Path] = set()
    for text in paths:
        check(text)
        if Path(text).resolve() in taken:
            raise InputError(f"--report {Path(text)}: is given twice. Name each report once.")
        taken.add(Path(text).resolve())


def budget_for_data(options: dict[str, Any], required: bool) -> Any:
    """The budget, and a check that options about samples come with samples.

    Args:
        options: of the command.
        required: whether a budget and reports mean anything only with --data.
    """
    from tfmp.converters.drift import DriftBudget
    from tfmp.converters.onnx.emulation import Profile

    check_reports(options)
    explanation(options)
    _check_ray(options)
    budget = DriftBudget.parse(options["budget"])
    if options["emulate"] is not None:
        Profile.parse(options["emulate"])
    if options["data"] is None:
        about_data = "labels reports budget emulate split explain latency ray".split()
        given = any(options[name] for name in about_data) or options["device"] != "auto"
        if required and given:
            raise InputError(
                "--labels, --report, --budget, --device, --emulate, --split, --explain, --latency "
                "and --ray need samples to compare on: give them with --data FILE."
            )
        if options["labels"]:
            raise InputError("--labels needs the samples they belong to: give them with --data.")
    return budget


def comparison(options: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """How `validate` is to compare, as its keyword arguments."""
    asked = {name: options[name] for name in "device emulate split latency ray workers".split()}
    return {
        **asked,
        "explain": explanation(options),
        "progress": progress,
        "count": progress.count,
    }


def _check_ray(options: dict[str, Any]) -> None:
    """Raises `InputError` for what would only fail once the models are converted and loaded."""
    if options["ray"] is None and options["workers"] is not None:
        raise InputError(
            f"--workers {options['workers']} is about --ray: give --ray too, or leave it out."
        )
    if options["ray"] is not None:
        from tfmp.converters.distributed import check_address
        from tfmp.converters.validation import check_for_ray

        check_for_ray(
            options["ray"],
            options["workers"],
            explain=options["explain"],
            latency=options["latency"],
        )
        check_address(options["ray"])


def explanation(options: dict[str, Any]) -> bool | Path:
    """What `validate` is to explain, and the folder for what shows the error.

    Raises:
        InputError: --reproduce without --explain, or a folder that cannot be made or is in use.
    """
    from tfmp.converters.shared.files import check_folder

    if not options["explain"]:
        if options["reproduce"]:
            raise InputError("--reproduce saves what --explain finds: give --explain too.")
        return False
    if options["reproduce"]:
        folder = Path(options["reproduce"])
    elif options["reports"]:
        folder = Path(options["reports"][0]).with_suffix(".reproduce")
    else:
        return True
    check_folder(folder if folder.exists() else folder.parent)
    if folder.exists() and any(folder.iterdir()) and not options["force"]:
        raise InputError(
            f"{folder}: is not empty. Choose another folder with --reproduce, or replace what is "
            "in it with --force."
        )
    return folder

"""The options of a command in the types of the converters: a request, a plan, files to write.

Everything that can be wrong with an option is told here, before a model is loaded.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfmp.converters.commands.options import Asked, Intake, Shown
from tfmp.converters.shared.errors import InputError

if TYPE_CHECKING:
    from tfmp.converters.comparison import Plan
    from tfmp.converters.drift import Task
    from tfmp.converters.intake import ModelRequest

_SHAPE = "NAME=SIZE,SIZE,..., as in image=1,224,224,3"
_AXIS = "NAME=AXIS, as in state=1, or x=none for one sample without an axis"


def model_request(model: str, intake: Intake) -> "ModelRequest":
    """The model that a command names."""
    from tfmp.converters.intake import ModelRequest

    return ModelRequest(
        model,
        signature=intake.signature,
        custom_modules=intake.custom_objects,
        unsafe_load=intake.unsafe_load,
        architecture=intake.architecture,
        batch_size=intake.batch,
        input_shapes=_named("--input-shape", _SHAPE, intake.input_shape, _shape),
        sample_axes=_named("--sample-axis", _AXIS, intake.sample_axis, _axis),
        states=_named("--state", "INPUT=OUTPUT", intake.state),
        lean=True,
    )


def _named(
    option: str, form: str, texts: Sequence[str], read: Callable[[str], Any] = str
) -> dict[str, Any]:
    """The values of a repeatable option, by the name before its equals sign, each name once.

    Args:
        option: of the command line.
        form: its form in words.
        texts: its values.
        read: what a value is; raises `ValueError` for one that is none.
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.rpartition("=")
        known: list[Any] = []
        with suppress(ValueError):
            known = [read(value)] if name and value else []
        if not known:
            raise InputError(f"{option} {text!r} is not {form}. Write it with an equals sign.")
        if name in found:
            raise InputError(f"{option} {text!r}: {name!r} was given already. Give it once.")
        found[name] = known[0]
    return found


def _axis(text: str) -> int | None:
    return None if text == "none" else int(text)


def _shape(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in text.split(","))


def _sizes(texts: Sequence[str]) -> list[dict[str, tuple[int, ...]]]:
    """The shapes that belong together: the first of each input, the second of each, and so on."""
    found: list[dict[str, tuple[int, ...]]] = []
    for text in texts:
        shape = _named("--sizes", _SHAPE, [text], _shape)
        chosen = next((each for each in found if not each.keys() & shape.keys()), None)
        if chosen is None:
            found.append(chosen := {})
        chosen |= shape
    return found


def _latency(asked: Asked) -> bool | tuple[int, ...]:
    """Whether calls are timed, or the batch sizes that they are timed with."""
    if asked.latency_batch_sizes is None:
        return asked.latency
    sizes = [part.strip() for part in asked.latency_batch_sizes.split(",")]
    if not all(size.isdecimal() and int(size) for size in sizes):
        raise InputError(
            f"--latency-batch-sizes {asked.latency_batch_sizes!r} is no list of whole numbers "
            "above 0; write it as in 1,8,32."
        )
    return tuple(map(int, sizes))


def comparison_plan(asked: Asked, shown: Shown, targets: Sequence[str] = ()) -> "Plan":
    """The plan that the options ask for.

    Args:
        asked: what is measured.
        shown: how it is shown.
        targets: runtimes that files are judged for.

    Raises:
        InputError: an option that cannot be used, or a report that cannot be written.
    """
    check_reports(asked, shown)
    explain = _explanation(asked, shown)
    from tfmp.converters.comparison import Plan
    from tfmp.converters.drift import DriftBudget

    plan = Plan.of(
        budget=DriftBudget.parse(asked.budget),
        device=asked.device,
        emulate=asked.emulate,
        target=targets,
        split=asked.split,
        explain=explain,
        latency=_latency(asked),
        ray=asked.ray,
        workers=asked.workers,
        tasks=_tasks(asked.task),
        metric=asked.metric,
        sizes=_sizes(asked.sizes),
    )
    if plan.ray is not None:
        from tfmp.converters.distributed import check_address

        check_address(plan.ray)
    return plan


def _tasks(texts: Sequence[str]) -> "dict[str, Task]":
    from tfmp.converters.drift import Task

    tasks: dict[str, Task] = {}
    for text in texts:
        output, task = Task.parse(text)
        if output in tasks:
            raise InputError(f"--task {text!r}: {output!r} has a task already. Give one.")
        tasks[output] = task
    return tasks


def check_reports(asked: Asked, shown: Shown, suffixes: Sequence[str] | None = None) -> None:
    """Raises `InputError` if a report could not be written, or would replace something.

    Args:
        asked: names the reports.
        shown: tells whether they may replace files.
        suffixes: that they may have; None for those of drift reports.
    """
    from tfmp.converters.report import check_path
    from tfmp.converters.shared.files import check_output

    taken: set[Path] = set()
    for text in asked.report:
        path = check_path(text, suffixes) if suffixes else check_path(text)
        check_output(path, path.suffix.lower(), shown.force)
        if path.resolve() in taken:
            raise InputError(f"--report {path}: is given twice. Name each report once.")
        taken.add(path.resolve())


def check_inputs_stay(reports: Sequence[str], inputs: Iterable[str | Path]) -> None:
    """Raises `InputError` for a report that would replace a file which the command reads."""
    read = [path for each in inputs if (path := Path(each)).exists()]
    for text in reports:
        if Path(text).exists() and any(path.samefile(text) for path in read):
            raise InputError(f"--report {text}: this command reads this file. Name another report.")


def _explanation(asked: Asked, shown: Shown) -> bool | Path:
    """Whether to explain the drift, and the folder for the error that is saved.

    Raises:
        InputError: --reproduce without --explain, or a folder that cannot be made or is in use.
    """
    from tfmp.converters.shared.files import check_folder

    if not asked.explain:
        if asked.reproduce:
            raise InputError(
                "--reproduce saves the error that --explain finds: give --explain, too."
            )
        return False
    if asked.reproduce:
        folder = Path(asked.reproduce)
    elif asked.report:
        folder = Path(asked.report[0]).with_suffix(".reproduce")
    else:
        return True
    check_folder(folder)
    if folder.exists() and any(folder.iterdir()) and not shown.force:
        raise InputError(
            f"{folder}: is not empty. Choose another folder with --reproduce, or replace its files "
            "with --force."
        )
    return folder

"""Where a validation runs: the device that was asked for, and the one that was chosen."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from tfmp.converters.formats import Format, all_formats
from tfmp.converters.runners import Runner
from tfmp.converters.shared.errors import InputError, MachineError

DEVICES = ("auto", "cpu", "gpu")


@dataclass(frozen=True)
class Placing:
    """What runs where.

    Attributes:
        gpu: names of the formats whose files run on a GPU.
        reference_gpu: whether the reference runs on a GPU where its framework has one.
        text: what was chosen and why, for the report.
    """

    gpu: frozenset[str]
    reference_gpu: bool
    text: str


def choose(device: str, formats: Collection[Format], emulate: bool = False) -> Placing:
    """Decides where candidates of these formats run.

    Args:
        device: "auto" takes a GPU for the formats that use one by default, where it works, and the
            CPU otherwise; "cpu"; "gpu" for all files. TFLite files also run on a GPU in software,
            for what it is worth.
        formats: of the candidates.
        emulate: FP16 arithmetic is to be emulated, which only a CPU does.

    Raises:
        InputError: "gpu" where there is none that can run the files, or
            something to emulate where nothing would be emulated.
    """
    if emulate:
        _check_emulation(device, formats)
    if device == "cpu":
        return _on_cpu("as asked")
    if device == "gpu":
        return _on_gpu(formats)
    if emulate:
        return _on_cpu("chosen by auto: FP16 is to be emulated")
    eager = [item for item in formats if item.gpu_by_default]
    if not eager:
        missing = " or ".join(item.title for item in all_formats() if item.gpu_by_default)
        return _on_cpu(f"chosen by auto: no {missing} file to run")
    problems = {item.name: item.gpu_problem(asked=False) for item in eager}
    works = [item for item in eager if problems[item.name] is None]
    if not works:
        return _on_cpu(f"chosen by auto: {next(iter(problems.values()))}")
    gpus = " and ".join(str(item.gpu) for item in works)
    return Placing(
        frozenset(item.name for item in works), True, f"gpu, chosen by auto: {gpus} works"
    )


def opened_where_possible(
    open_it: Callable[[bool], Runner], gpu: bool, device: str
) -> tuple[Runner, tuple[str, ...]]:
    """A runner on the device that was chosen for it, or on the CPU if a GPU that was not asked for
    cannot be used after all.

    Args:
        open_it: opens the runner, on a GPU or not.
        gpu: whether a GPU was chosen.
        device: "auto", "cpu" or "gpu", as asked.

    Returns:
        The runner, and notes for the report.

    Raises:
        InputError: the device cannot be used.
        RunnerError: the file cannot be loaded.
    """
    try:
        return open_it(gpu), ()
    except MachineError as error:
        if not gpu or device != "auto":
            raise machine_failure(error, gpu) from error
        return open_it(False), (f"ran on the CPU, because the GPU failed: {error}",)


def machine_failure(error: MachineError, gpu: bool) -> InputError:
    """The error of a machine as the user's, who has to mend it or to choose another device."""
    advice = " Use device cpu, or repair the GPU's runtime." if gpu else ""
    return InputError(f"device: {str(error).rstrip('.')}.{advice}")


def _on_cpu(why: str) -> Placing:
    return Placing(frozenset(), False, f"cpu, {why}")


def _on_gpu(formats: Collection[Format]) -> Placing:
    for item in formats:
        problem = item.gpu_problem()
        if problem is not None:
            advice = f", or {item.gpu_advice}" if item.gpu_advice else ""
            raise InputError(
                f"device: expected a GPU for 'gpu', but {problem}. Use device cpu{advice}."
            )
    text, real = "gpu, as asked", False
    for item in formats:
        software = item.gpu_in_software()
        real |= software is None
        if software is not None:
            text += f"; for {item.title} that is {software}"
    return Placing(frozenset(item.name for item in formats), real, text)


def _check_emulation(device: str, formats: Collection[Format]) -> None:
    if device == "gpu":
        raise InputError(
            "emulate: a GPU computes in FP16 itself, received device 'gpu' too. Leave one of them "
            "out."
        )
    if not any(item.emulated for item in formats):
        emulated = " or ".join(item.title for item in all_formats() if item.emulated)
        raise InputError(
            f"emulate: expected an {emulated} file to emulate FP16 arithmetic for, received only "
            f"{', '.join(sorted(item.suffix for item in formats))}. Leave it out: LiteRT computes "
            "such files itself."
        )

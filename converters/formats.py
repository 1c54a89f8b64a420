"""The file formats that models are converted to, and everything that depends on which one it is.

Each format is a folder with a `format.py` that defines a `Format`, and a line in `_KNOWN`. Other
rooms ask the format instead of looking at suffixes.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.options import check_choice
from tfmp.shared.wording import joined

if TYPE_CHECKING:
    from tfmp.converters.drift import CustomMetric, DriftBudget, Task
    from tfmp.converters.explain import Candidate
    from tfmp.converters.intake import AnySource
    from tfmp.converters.onnx.emulation import Profile
    from tfmp.converters.report import FileNotes
    from tfmp.converters.runners import Runner, RunnerInfo, TimedCalls
    from tfmp.converters.samples import Samples
    from tfmp.converters.shared.tensors import Batch, TensorSpec
    from tfmp.shared.progress import Progress

PRECISIONS = ("fp16", "bf16", "mixed", "fp32")

_QUICK_BYTES = 20_000_000  # a search of mixed precision takes seconds up to here

FP32_FAILS = (
    "The FP32 file is over the limit, too, as float32 runtimes differ: declare a larger one"
)


@dataclass(frozen=True)
class Target:
    """One file that a conversion is to write.

    Attributes:
        format: of the file.
        path: of the file.
        precision: one of `PRECISIONS`.
        options: an instance of the format's `options`.
        profile: hardware or runtime that searches for the file emulate; None for the one that the
            options name, or the default.
        tasks: meanings of outputs that the user has declared, for searches that keep a budget.
        metrics: of the user's own, likewise.
        budget: the drift that such a search keeps to; None for the default.
    """

    format: "Format"
    path: Path
    precision: str
    options: Any
    profile: "Profile | None" = None
    tasks: "Mapping[str, Task]" = field(default_factory=dict)
    metrics: "tuple[CustomMetric, ...]" = ()
    budget: "DriftBudget | None" = None

    @property
    def quick(self) -> bool:
        """Whether it takes seconds to try other ways to make the file, which is there."""
        return self.path.stat().st_size <= _QUICK_BYTES


@dataclass(frozen=True)
class Way:
    """A way to convert a model again.

    Attributes:
        told: the way in words.
        flags: its options of `tfmp-convert`, of the same format; None if no command is the way.
        target: what to write to see whether it helps, or can; None where nothing is left to try.
    """

    told: str
    flags: str | None = None
    target: Target | None = None


class Format(ABC):
    """A file format: how such files are written, opened, run and looked into.

    Attributes:
        name: the word for it in `to` and in reports; the suffix is this word behind a dot.
        title: the word for it in sentences.
        takes: the models that become such files, for help texts.
        options: the dataclass of its options, see `tfmp.converters.shared.options`.
        precisions: those of `PRECISIONS` that its files can have.
        mixing: help on the precision "mixed".
        instead_of_mixed: options that serve a file of one precision as "mixed" serves others.
        all_signatures: whether one file takes every signature of a SavedModel.
        emulated: whether FP16 arithmetic is emulated on a CPU, with the sums of a `Profile`.
        gpu: the software that runs such files on a GPU; None where no runner uses a GPU.
        gpu_by_default: whether device "auto" takes that GPU where it works.
        gpu_advice: how to get that GPU to work, as the end of a sentence.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    takes: ClassVar[str] = ".keras, .h5, SavedModel"
    options: ClassVar[type]
    precisions: ClassVar[tuple[str, ...]] = ("fp16", "fp32")
    mixing: ClassVar[str] = ""
    instead_of_mixed: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    all_signatures: ClassVar[bool] = False
    emulated: ClassVar[bool] = False
    gpu: ClassVar[str | None] = None
    gpu_by_default: ClassVar[bool] = False
    gpu_advice: ClassVar[str] = ""

    @property
    def suffix(self) -> str:
        """Suffix of such files, with its dot."""
        return f".{self.name}"

    # Writing

    def check(
        self, precision: str, options: Any, sampled: bool, batch_size: int | None = None
    ) -> None:
        """Raises `InputError` where options contradict each other or lack samples.

        Args:
            precision: one of `PRECISIONS`.
            options: an instance of `self.options`.
            sampled: whether samples come with the conversion.
            batch_size: that the model is to be opened with; None for its own.
        """
        check_choice("precision", precision, PRECISIONS)
        if precision not in self.precisions:
            able = " or ".join(item.title for item in all_formats() if precision in item.precisions)
            mixed = precision == "mixed"
            why = "compute a whole file in one precision" if mixed else "compute in FP16 or FP32"
            raise InputError(
                f"precision {precision} (--precision) is for {able} files: {self.title} runtimes "
                f"{why}. Use precision fp16{self._other_help() if mixed else ''}, or convert to "
                f"{able}."
            )
        if precision == "mixed" and not sampled:
            raise InputError(
                "precision mixed (--precision) finds the nodes that need FP32 on samples, and this "
                "conversion has no data. Pass data (--data FILE), or use precision fp16."
            )

    def _other_help(self) -> str:
        flags = [f"{name} (--{name})" for name in self.instead_of_mixed]
        return f" with {joined(flags)}" if flags else ""

    def searches(self, target: Target) -> str | None:
        """Name of the choice that makes `write` read the samples itself; None for no such choice.

        Samples that can be read only once cannot serve a search and a comparison.
        """
        return "precision mixed" if target.precision == "mixed" else None

    @contextmanager
    def starting(self) -> Iterator[Any]:
        """A helper of `write` that starts while the model is loaded, such as a process."""
        yield None

    @abstractmethod
    def write(
        self,
        source: "AnySource",
        target: Target,
        samples: "Samples | None",
        helper: Any,
        progress: "Progress",
    ) -> "FileNotes":
        """Writes the file, whole or not at all.

        Args:
            source: the open model.
            target: the file to write.
            samples: for searches and repairs; None without data.
            helper: the result of `starting`; None to start one here.
            progress: told of the stages.

        Raises:
            InputError: the model is of a kind that cannot become such a file.
            ConversionError: the model has a part that the format cannot express.
        """

    @abstractmethod
    def write_fp32(self, source: "AnySource", path: Path) -> None:
        """Writes the float32 baseline that the stages of a drift begin with.

        Raises:
            ConversionError: the model has a part that the format cannot express.
        """

    def signatures(self, path: Path) -> "Mapping[str, tuple[tuple[TensorSpec, ...], ...]]":
        """The inputs and outputs of each entry point of a file that was written, to be printed."""
        return {}

    def companions(self, path: Path) -> tuple[Path, ...]:
        """Files that belong to a file, such as external weights; they may be missing."""
        return ()

    def remedy(self, path: Path) -> tuple[str, str | None]:
        """A way to convert again that may mend a drift, not tried, and its options; see `Way`."""
        return "", None

    def made(self, path: Path) -> Target | None:
        """The conversion that a file is from, if the file tells enough for `ways`."""
        return None

    def ways(
        self, source: "AnySource", target: Target, samples: "Samples", fails: bool
    ) -> "Iterator[Way]":
        """Ways to convert again that are tried, the first ones first, and the end in words.

        Args:
            source: the model.
            target: the file that does not pass.
            samples: that it was compared on.
            fails: whether it fails; else its verdict is open.
        """
        return iter(())

    def mended(self, path: Path, profile: "Profile | None") -> "Iterable[tuple[Profile, str]]":
        """Emulated runtimes without a fault that can be switched off, and how to run a file so.

        Args:
            path: of the file.
            profile: the runtime with the faults; None for that of the file, or the default.

        Returns:
            Pairs of a profile and the way, a sentence without a full stop.
        """
        return ()

    # Running

    @abstractmethod
    def open_runner(
        self,
        path: Path,
        gpu: bool = False,
        profile: "Profile | None" = None,
        signature: str | None = None,
        weights_only: bool = False,
    ) -> "Runner":
        """The runner that shows most of what a file does on hardware with FP16 arithmetic.

        Args:
            path: of the file.
            gpu: run it on a GPU.
            profile: hardware or runtime to emulate on the CPU; None for the one that the file was
                made for, or the default.
            signature: the entry point to run, where the file has several.
            weights_only: compute in FP32 with the file's own weights.

        Raises:
            RunnerError: the file cannot be loaded, or there is no such GPU.
        """

    def open_reference(self, source: "AnySource", gpu: bool) -> "Runner":
        """The runner of a reference that is a file of this format already."""
        raise NotImplementedError(f"{self.title} files are no references")

    @abstractmethod
    def time_calls(
        self, path: Path, call: "Batch", rows: int, info: "RunnerInfo", signature: str | None
    ) -> "TimedCalls":
        """Times single calls of a file as it is installed, never emulated.

        Args:
            path: of the file.
            call: arrays of one call by the file's input names.
            rows: number of samples in it.
            info: the runner that the file was compared on; a GPU is timed, too.
            signature: the entry point that was compared.

        Raises:
            RunnerError: the file cannot be loaded or run.
        """

    @abstractmethod
    def open_seams(
        self, path: Path, source: "AnySource", profile: "Profile | None", stack: ExitStack
    ) -> "Candidate":
        """A file opened between its layers, for the explanation of a drift.

        Args:
            path: of an FP16 file.
            source: the reference.
            profile: hardware or runtime that is emulated, where the format emulates; None as in
                `open_runner`.
            stack: holds processes and temporary files.
        """

    # Devices

    def gpu_problem(self, asked: bool = True) -> str | None:
        """Why the GPU cannot be used, as the end of a sentence; None if it can.

        Args:
            asked: the user asked for a GPU; otherwise it is about device "auto".
        """
        return f"{self.title} files have no runner on a GPU"

    def gpu_in_software(self) -> str | None:
        """The adapter that would be used, and its arithmetic, where a CPU plays the GPU; None for
        a real GPU.
        """
        return None


# A format is one folder and one line here: its name, and where its `Format` is.
_KNOWN = {
    "onnx": "tfmp.converters.onnx.format:OnnxFormat",
    "tflite": "tfmp.converters.tflite.format:TFLiteFormat",
}


@cache
def all_formats() -> tuple[Format, ...]:
    """Every format."""
    homes = (home.partition(":") for home in _KNOWN.values())
    return tuple(getattr(import_module(module), kind)() for module, _, kind in homes)


def format_named(name: str) -> Format:
    """A format by its name.

    Raises:
        InputError: no format has that name.
    """
    known: Mapping[str, Format] = {item.name: item for item in all_formats()}
    check_choice("to", name, tuple(known))
    return known[name]


def format_of(path: Path) -> Format:
    """The format of a file, by its suffix.

    Raises:
        InputError: no format has that suffix.
    """
    formats = all_formats()
    for item in formats:
        if path.suffix.lower() == item.suffix:
            return item
    raise InputError(
        f"{path}: expected a candidate ending in {' or '.join(item.suffix for item in formats)}, "
        f"received suffix {path.suffix!r}. Name the converted file."
    )

"""FP16 .tflite files, opened for an explanation.

Values come from the candidate with its seams as outputs, in FP32 arithmetic and forced to compute
in FP16, and those of single parts from the candidate cut at its seams, forced likewise.
"""

from contextlib import ExitStack
from pathlib import Path

from tfmp.converters.explain.attribution import Values, given
from tfmp.converters.explain.reproduction import TFLITE_SCRIPT, save_reproduction
from tfmp.converters.explain.tflite_seams import Grouping, SeamedFile, Seams, rename
from tfmp.converters.intake import AnySource
from tfmp.converters.shared.errors import RunnerError
from tfmp.converters.shared.tensors import Batch
from tfmp.converters.shared.worker import Worker
from tfmp.converters.tflite.file import TFLiteModel
from tfmp.shared.atomic_file import temporary_folder

_TIMEOUT_S = 600.0


class TFLiteTaps:
    """Three files, each in a process of its own."""

    def __init__(
        self,
        file: SeamedFile,
        groups: Grouping,
        folder: Path,
        stack: ExitStack,
    ) -> None:
        """Writes and opens them.

        Args:
            file: the candidate.
            groups: the part of every operator; operators of part "" are not looked at.
            folder: the folder for the files.
            stack: holds the processes.

        Raises:
            RunnerError: LiteRT cannot load one of them.
            ConversionError: the candidate is past 2 GiB.
        """
        self._seams = seams = Seams(file, groups)
        self.parts = seams.parts()
        self._open = any(None in spec.shape for spec in file.inputs)
        whole, cut = folder / "whole.tflite", folder / "cut.tflite"
        seams.exposed(whole)
        self._needed, _ = seams.cut(cut)
        self._exact, self._received, self._alone = (
            stack.enter_context(_worker(path, mode))
            for path, mode in ((whole, "cpu"), (whole, "fp16"), (cut, "fp16"))
        )

    def run(self, inputs: Batch) -> Values:
        """The values of one batch; arrays by input name."""
        try:
            return self._run(inputs)
        except RunnerError as error:
            if not self._open:
                raise
            raise RunnerError(
                "LiteRT does not hand out inner values of a file whose sizes are known only while "
                "it runs. Explain a file with a fixed batch: convert without --dynamic"
            ) from error

    def _run(self, inputs: Batch) -> Values:
        exact: Batch = self._exact.call("run_whole", inputs)
        known = {**inputs, **{given(name): array for name, array in exact.items()}}
        return Values(
            exact,
            self._received.call("run_whole", inputs),
            self._alone.call("run_whole", {name: known[name] for name in self._needed}),
        )


def _worker(path: Path, mode: str) -> Worker:
    return Worker(
        "tfmp.converters.tflite.file:Interpreter",
        path,
        mode,
        label=f"LiteRT with the {path.stem} file ({mode})",
        timeout_s=_TIMEOUT_S,
    )


class TFLiteCandidate:
    """See `candidate.Candidate`."""

    def __init__(self, path: Path, source: AnySource, stack: ExitStack) -> None:
        """Reads the file.

        Args:
            path: path of an FP16 .tflite file.
            source: the reference.
            stack: holds processes and temporary files.
        """
        signature = source.origin.signature
        known = signature if signature in TFLiteModel(path).signatures else None
        self._file = SeamedFile(path, known)
        self._stack = stack
        self.notes: tuple[str, ...] = ()
        shape = self._file.inputs[0].shape if self._file.inputs else ()
        self.batch_size = shape[0] if shape else None
        self.outputs = self._file.outputs
        self.graph = self._file.graph
        self.computed = (
            "FP16 by LiteRT on the CPU, forced to compute in FP16, which also rounds the inputs of "
            "a layer; FP32 by this file in FP32 arithmetic, so errors do not count the rounding of "
            "weights"
        )

    def layers(self) -> TFLiteTaps:
        return self._open(self._file.by_layer())

    def nodes(self, layer: str) -> TFLiteTaps:
        return self._open(self._file.by_node(layer))

    def _open(self, groups: Grouping) -> TFLiteTaps:
        folder = self._stack.enter_context(temporary_folder())
        return TFLiteTaps(self._file, groups, folder, self._stack)

    def op(self, node: str) -> str:
        for operator in self._file.operators:
            if self._file.name(operator.outputs[0]) == node:
                return operator.name
        raise KeyError(node)

    def save_node(self, node: str, inputs: Batch, values: Values, folder: Path) -> None:
        groups = {
            operator.index: node * (self._file.name(operator.outputs[0]) == node)
            for operator in self._file.operators
        }
        path = folder / "node.tflite"
        needed, made = Seams(self._file, groups).cut(path)
        known = {**inputs, **{given(name): array for name, array in values.exact.items()}}
        short = {name: f"x{index}" for index, name in enumerate(needed)}
        plain = {name: f"y{index}" for index, name in enumerate(made)}
        rename(path, {**short, **plain})
        save_reproduction(
            folder,
            {short[name]: known[name] for name in needed},
            {plain[name]: values.exact[name] for name in made},
            TFLITE_SCRIPT,
            f"{self.op(node)} {node!r}",
        )

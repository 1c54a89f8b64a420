"""FP16 .tflite files, opened for an explanation.

Exact values come from the reference's own FP32 file if it has the same operators. Received values
come from the candidate with its seams as outputs, and values of single parts from the candidate cut
at its seams; both of these files are forced to compute in FP16.
"""

from contextlib import ExitStack
from pathlib import Path

from tfmp.converters.explain.attribution import Values, given
from tfmp.converters.explain.reproduction import TFLITE_SCRIPT, save_reproduction
from tfmp.converters.explain.tflite_seams import Grouping, SeamedFile, Seams, rename
from tfmp.converters.intake import AnySource, Source
from tfmp.converters.shared.errors import ConversionError, InputError, RunnerError
from tfmp.converters.shared.tensors import Batch
from tfmp.converters.shared.worker import Worker
from tfmp.converters.tflite.export import export_tflite
from tfmp.converters.tflite.file import TFLiteModel, host_scaling
from tfmp.shared.atomic_file import temporary_folder

_TIMEOUT_S = 600.0


class TFLiteTaps:
    """Three files, each in a process of its own."""

    def __init__(
        self,
        file: SeamedFile,
        groups: Grouping,
        twin: SeamedFile | None,
        folder: Path,
        stack: ExitStack,
    ) -> None:
        """Writes and opens them.

        Args:
            file: the candidate.
            groups: the part of every operator; operators of part "" are not looked at.
            twin: the reference's FP32 file of the same form; None to run the candidate in FP32.
            folder: the folder for the files.
            stack: holds the processes.

        Raises:
            RunnerError: LiteRT cannot load one of them.
            ConversionError: the candidate is past 2 GiB.
        """
        self._seams = seams = Seams(file, groups)
        self.parts = seams.parts()
        self._open = any(None in spec.shape for spec in file.inputs)
        paths = [folder / f"{name}.tflite" for name in ("exact", "received", "alone")]
        seams.exposed(paths[0], twin)
        seams.exposed(paths[1])
        self._needed, _ = seams.cut(paths[2])
        modes = ("cpu", "fp16", "fp16")
        self._exact, self._received, self._alone = (
            stack.enter_context(_worker(path, mode))
            for path, mode in zip(paths, modes, strict=True)
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
        "tfmp.converters.explain.tflite_worker:TapInterpreter",
        path,
        mode,
        label=f"LiteRT with the {path.stem} values",
        timeout_s=_TIMEOUT_S,
    )


class TFLiteCandidate:
    """See `candidate.Candidate`."""

    def __init__(self, path: Path, source: AnySource, stack: ExitStack) -> None:
        """Reads the file, and converts the reference to FP32.

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
        self._twin = self._find_twin(source)
        shape = self._file.inputs[0].shape if self._file.inputs else ()
        self.batch_size = shape[0] if shape else None
        self.outputs = self._file.outputs
        self.graph = self._file.graph
        fp32 = "the reference's own FP32 file" if self._twin else "this file with FP32 arithmetic"
        self.computed = (
            "FP16 by LiteRT on the CPU, forced to compute in FP16, which also rounds the inputs of "
            f"a layer; FP32 by {fp32}"
        )

    def _find_twin(self, source: AnySource) -> SeamedFile | None:
        """The reference as an FP32 file, if that has the same operators as the candidate."""
        found, problem = None, "an ONNX file has no FP32 .tflite file"
        if host_scaling(self._file.model):
            problem = "the host scales outputs of this file"
        elif isinstance(source, Source):
            path = self._folder() / "reference.tflite"
            try:
                export_tflite(source, path, "fp32", self._file.inputs[0].shape[0])
                found, problem = SeamedFile(path), "the reference's FP32 file has other operators"
            except (ConversionError, InputError) as error:
                problem = f"the reference cannot be converted in FP32 ({error})"
        if found is not None and _same_form(found, self._file):
            return found
        self.notes = (
            f"{problem}: the layers are compared with this file in FP32 arithmetic, so errors do "
            "not count the rounding of weights",
        )
        return None

    def _folder(self) -> Path:
        return self._stack.enter_context(temporary_folder())

    def layers(self) -> TFLiteTaps:
        return self._open(self._file.by_layer())

    def nodes(self, layer: str) -> TFLiteTaps:
        return self._open(self._file.by_node(layer))

    def _open(self, groups: Grouping) -> TFLiteTaps:
        return TFLiteTaps(self._file, groups, self._twin, self._folder(), self._stack)

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


def _same_form(one: SeamedFile, other: SeamedFile) -> bool:
    shapes = ([spec.shape for spec in file.inputs] for file in (one, other))
    first, second = shapes
    return first == second and one.form() == other.form()

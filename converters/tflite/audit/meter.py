"""Measures the range of every tensor of a float32 .tflite file while it runs, and of hidden sums.

This runs in a worker process, on LiteRT's plain kernels: they write every tensor and compute in
FP32, so that values show which FP16 could not have held.
"""

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from tfmp.converters.shared.tensors import Batch
from tfmp.converters.tflite.file import Operator, TFLiteModel
from tfmp.shared.numerics import FLOAT16

# Slots of the table Model in schema.fbs.
_MODEL_SUBGRAPHS = 8
_MODEL_SIGNATURES = 18

# Operators that turn a small operand into a large or infinite result, and which operand that is.
_DELICATE_OPERAND = {"DIV": 1, "RSQRT": 0, "LOG": 0}


@dataclass
class Range:
    """The values that were seen of one tensor.

    Attributes:
        peak: largest finite magnitude.
        smallest: smallest magnitude other than zero.
        nonfinite: number of values that are infinite or not a number in float32 already.
        nonzero: number of values other than zero.
        vanished: number of values other than zero that FP16 makes zero.
        hidden: largest magnitude of a sum inside the operator that gives the tensor.
        hidden_what: name of that sum.
        operand: smallest magnitude of an operand that the operator divides by.
    """

    peak: float = 0.0
    smallest: float = np.inf
    nonfinite: int = 0
    nonzero: int = 0
    vanished: int = 0
    hidden: float = 0.0
    hidden_what: str = ""
    operand: float = np.inf

    def see(self, values: np.ndarray) -> None:
        """Widens the range by the values of one run."""
        sizes = np.abs(values[np.isfinite(values)])
        self.nonfinite += values.size - sizes.size
        nonzero = sizes[sizes > 0]
        if nonzero.size:
            self.peak = max(self.peak, float(nonzero.max()))
            self.smallest = min(self.smallest, float(nonzero.min()))
            self.nonzero += nonzero.size
            self.vanished += int(np.count_nonzero(nonzero <= FLOAT16.smallest_subnormal / 2))


class RangeMeter:
    """Collects ranges over all samples seen; the object that a `Worker` holds."""

    def __init__(self, path: Path) -> None:
        self._file = TFLiteModel(path)
        self._ranges: dict[tuple[int, int], Range] = {}
        self._graphs: dict[int, _Graph] = {}
        self._main = self._graph(0)

    def see(self, batch: Batch) -> None:
        """Runs every sample of a batch; arrays by input name."""
        arrays = [
            np.asarray(batch[spec.name], dtype=spec.dtype, order="C") for spec in self._file.inputs
        ]
        if self._file.signature().takes_whole_calls:
            self._run(0, arrays)
            return
        size = self._file.batch_size or 1
        rows = next((len(array) for array in arrays if array.ndim), 1)
        for start in range(0, rows, size):
            self._run(
                0,
                [
                    _filled(array[start : start + size], size) if array.ndim else array
                    for array in arrays
                ],
            )

    def ranges(self) -> list[tuple[int, int, Range]]:
        """Subgraph, tensor index and range of every float32 tensor that was computed."""
        return [(graph, index, seen) for (graph, index), seen in self._ranges.items()]

    def _graph(self, number: int) -> "_Graph":
        if number not in self._graphs:
            content = as_main(self._file.path.read_bytes(), number)
            self._graphs[number] = _Graph(number, content, self._file)
        return self._graphs[number]

    def _run(self, number: int, inputs: list[np.ndarray]) -> list[np.ndarray]:
        graph = self._graph(number)
        graph.invoke(inputs)
        for operator in graph.operators:
            if operator.name == "WHILE":  # what it passes through has no memory of its own
                self._loop(operator, [graph.value(index) for index in operator.inputs])
            else:
                self._note(graph, operator)
        return graph.outputs()

    def _loop(self, operator: Operator, state: list[np.ndarray]) -> None:
        """Repeats a loop step by step: its own run keeps only the last step's tensors."""
        options = self._file.options(operator, schema.WhileOptions)
        condition, body = options.CondSubgraphIndex(), options.BodySubgraphIndex()
        while bool(self._run(condition, state)[0].reshape(())):
            state = self._run(body, state)

    def _note(self, graph: "_Graph", operator: Operator) -> None:
        for index in operator.outputs:
            if graph.dtype(index) != "float32":
                continue
            seen = self._ranges.setdefault((graph.number, index), Range())
            seen.see(graph.value(index))
            what, hidden = _hidden_sum(operator, graph, self._file)
            if hidden > seen.hidden:
                seen.hidden, seen.hidden_what = hidden, what
            position = _DELICATE_OPERAND.get(operator.name)
            if position is not None:
                operand = np.abs(graph.value(operator.inputs[position]))
                if operand.size:
                    seen.operand = min(seen.operand, float(operand.min()))


@dataclass
class _Graph:
    """One subgraph, executable by itself."""

    number: int
    content: bytes
    file: TFLiteModel
    operators: list[Operator] = field(init=False)
    _interpreter: Any = field(init=False)

    def __post_init__(self) -> None:
        self.operators = [o for o in self.file.operators if o.subgraph == self.number]
        self._interpreter = Interpreter(
            model_content=self.content,
            experimental_preserve_all_tensors=True,
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )
        self._interpreter.allocate_tensors()
        self._inputs = [d["index"] for d in self._interpreter.get_input_details()]
        self._outputs = [d["index"] for d in self._interpreter.get_output_details()]

    def invoke(self, inputs: list[np.ndarray]) -> None:
        details = self._interpreter.get_input_details()
        resized = False
        for detail, array in zip(details, inputs, strict=True):
            if tuple(detail["shape"]) != array.shape:
                self._interpreter.resize_tensor_input(detail["index"], array.shape)
                resized = True
        if resized:
            self._interpreter.allocate_tensors()
        for index, array in zip(self._inputs, inputs, strict=True):
            self._interpreter.set_tensor(index, array)
        self._interpreter.invoke()

    def outputs(self) -> list[np.ndarray]:
        return [self.value(index) for index in self._outputs]

    def value(self, index: int) -> np.ndarray:
        try:
            return np.asarray(self._interpreter.get_tensor(index))
        except ValueError:
            # LiteRT hands out no tensor without elements, such as the steps before the first one.
            shape = self._interpreter.get_tensor_details()[index]["shape"]
            if 0 not in shape:
                raise
            return np.zeros(shape, self.dtype(index))

    def dtype(self, index: int) -> str:
        return self.file.tensors[self.number][index].spec.dtype


def _filled(rows: np.ndarray, size: int) -> np.ndarray:
    """As many rows as the file takes; repeating the last one widens no range."""
    return np.concatenate([rows, np.repeat(rows[-1:], size - len(rows), axis=0)])


def as_main(content: bytes, number: int) -> bytes:
    """The same file with the subgraph of that number first, and without signatures."""
    if number == 0:
        return content
    data = bytearray(content)
    table = schema.Model.GetRootAs(data, 0)._tab
    start = table.Vector(table.Offset(_MODEL_SUBGRAPHS))
    entries = (start, start + 4 * number)
    targets = [position + struct.unpack_from("<I", data, position)[0] for position in entries]
    for position, target in zip(entries, reversed(targets), strict=True):
        struct.pack_into("<I", data, position, target - position)
    # A vtable lists where a table's fields are; 0 means that the field is absent.
    vtable = table.Pos - struct.unpack_from("<i", data, table.Pos)[0]
    struct.pack_into("<H", data, vtable + _MODEL_SIGNATURES, 0)
    return bytes(data)


def _hidden_sum(operator: Operator, graph: _Graph, file: TFLiteModel) -> tuple[str, float]:
    """The sum that an operator makes before it writes its result, and its largest value."""
    if operator.name in ("SUM", "MEAN"):
        axes = graph.value(operator.inputs[1]).reshape(-1)
        return "sum", _running_peak(graph.value(operator.inputs[0]), axes)
    if operator.name == "L2_NORMALIZATION":
        values = graph.value(operator.inputs[0]).astype(np.float64)
        return "sum of squares", _peak(np.sum(values**2, axis=-1))
    if operator.name in ("SOFTMAX", "LOG_SOFTMAX"):
        values = graph.value(operator.inputs[0]).astype(np.float64)
        with np.errstate(invalid="ignore"):  # a row of infinities is seen as such elsewhere
            exponentials = np.exp(values - values.max(axis=-1, keepdims=True))
        return "sum of exponentials", _peak(exponentials.sum(axis=-1))
    if operator.name == "AVERAGE_POOL_2D":
        window = file.options(operator, schema.Pool2DOptions)
        size = window.FilterWidth() * window.FilterHeight()
        return "sum over the window", _peak(graph.value(operator.outputs[0])) * size
    return "", 0.0


def _running_peak(values: np.ndarray, axes: np.ndarray) -> float:
    """The largest magnitude of a running sum over `axes`, in the order of memory."""
    summed = sorted(int(axis) % values.ndim for axis in axes)
    kept = [axis for axis in range(values.ndim) if axis not in summed]
    rows = values.transpose(*kept, *summed).reshape(
        int(np.prod([values.shape[axis] for axis in kept])), -1
    )
    return _peak(np.cumsum(rows, axis=1, dtype=np.float64))


def _peak(values: np.ndarray) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size else 0.0

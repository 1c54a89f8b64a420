"""Reads a .tflite file from its flatbuffer, without running or unpacking it."""

import mmap
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from tfmp.converters.shared.errors import InputError, RunnerError
from tfmp.converters.shared.tensors import USUAL_SIGNATURES, TensorSpec

_IDENTIFIER = b"TFL3"
_FLEX_PREFIX = "Flex"
_BUFFER_DATA = 4  # the slot of the first field of a table


def _names(enum: type) -> dict[int, str]:
    return {value: name for name, value in vars(enum).items() if not name.startswith("_")}


_OPERATOR_NAMES = _names(schema.BuiltinOperator)
_DTYPES = {
    code: {"FLOAT32": "float32", "FLOAT64": "float64"}.get(name, name.lower())
    for code, name in _names(schema.TensorType).items()
}
_CUSTOM = schema.BuiltinOperator.CUSTOM


@dataclass(frozen=True)
class Tensor:
    """One tensor of one subgraph.

    Attributes:
        subgraph: index of the subgraph that holds it; 0 is the main one.
        spec: its name, dtype and shape; sizes that may change are None.
        buffer: index of the buffer with its constant value, or None when it is computed.
        nbytes: size of that buffer in bytes.
    """

    subgraph: int
    spec: TensorSpec
    buffer: int | None
    nbytes: int


@dataclass(frozen=True)
class Operator:
    """One operator; inputs and outputs are tensor indices in its subgraph, -1 for absent ones."""

    subgraph: int
    index: int
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    custom: bool

    @property
    def flex(self) -> bool:
        """Whether it is a TensorFlow op that plain LiteRT cannot run."""
        return self.custom and self.name.startswith(_FLEX_PREFIX)


@dataclass(frozen=True)
class Signature:
    """The inputs and outputs of one entry point of a file, in its order."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    @property
    def batch_size(self) -> int | None:
        """First size of the first input with axes; None when it may change."""
        return next((spec.shape[0] for spec in self.inputs if spec.shape), None)

    @property
    def takes_whole_calls(self) -> bool:
        """Whether inputs begin with different sizes, so rows of all of them are no samples."""
        return len({spec.shape[0] for spec in self.inputs if spec.shape}) > 1


class TFLiteModel:
    """A .tflite file, mapped into memory.

    Attributes:
        path: path of the file.
        tensors: tensors of each subgraph.
        operators: operators of every subgraph, each subgraph in execution order.
        signatures: inputs and outputs by signature; a file without any has one named "".
        metadata: index of the buffer of each named metadata entry.
    """

    def __init__(self, path: Path) -> None:
        """Maps the file and reads all of it but the weights.

        Raises:
            InputError: the file is missing, unreadable or not a whole TFLite model.
        """
        self.path = path
        self._bytes = _map(path)
        if self._bytes[4:8] != _IDENTIFIER:
            raise InputError(
                f"{path}: not a TFLite model: expected the mark {_IDENTIFIER.decode()!r} at byte "
                f"4, received {bytes(self._bytes[4:8])!r}. It may be truncated or misnamed; "
                "convert the model again."
            )
        try:
            self._read()
        except (struct.error, IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
            # What following an offset into nowhere can raise.
            raise InputError(
                f"{path}: a damaged TFLite model ({error}). It may be truncated; convert the model "
                "again."
            ) from error

    def _read(self) -> None:
        self.root = schema.Model.GetRootAs(self._bytes, 0)
        graphs = [self.root.Subgraphs(i) for i in range(self.root.SubgraphsLength())]
        self.tensors = tuple(
            tuple(self._tensor(number, graph.Tensors(i)) for i in range(graph.TensorsLength()))
            for number, graph in enumerate(graphs)
        )
        self.operators = tuple(
            self._operator(number, i, graph.Operators(i))
            for number, graph in enumerate(graphs)
            for i in range(graph.OperatorsLength())
        )
        entries = (self.root.Metadata(i) for i in range(self.root.MetadataLength()))
        self.metadata = {entry.Name().decode(): entry.Buffer() for entry in entries}
        definitions = [self.root.SignatureDefs(i) for i in range(self.root.SignatureDefsLength())]
        self.signatures = {
            definition.SignatureKey().decode(): self._signature(definition)
            for definition in definitions
        } or {"": self._bare_signature(graphs[0])}

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs of the default signature, in its order."""
        return self.signature().inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs of the default signature, in its order."""
        return self.signature().outputs

    @property
    def batch_size(self) -> int | None:
        """The batch size of the default signature; None when it may change."""
        return self.signature().batch_size

    @cached_property
    def has_fp16_weights(self) -> bool:
        """Whether any constant is float16."""
        return any(tensor.spec.dtype == "float16" for tensor in self.constants())

    def signature(self, key: str | None = None) -> Signature:
        """The signature of that name, or the one that is meant to be served.

        Raises:
            RunnerError: the file has no such signature.
        """
        if key is None:
            return self.signatures[self.entry_point()]
        if key not in self.signatures:
            raise RunnerError(
                f"{self.path} has no signature {key!r}; it has "
                f"{', '.join(map(repr, self.signatures))}."
            )
        return self.signatures[key]

    def entry_point(self, wanted: str | None = None) -> str:
        """The name of a signature: `wanted` if there is one, else the usual one, else the first."""
        names = (wanted, *USUAL_SIGNATURES, *self.signatures)
        return next(name for name in names if name is not None and name in self.signatures)

    def buffer_position(self, index: int) -> int:
        """The position in the file where the bytes of a buffer start."""
        buffer = self.root.Buffers(index)
        if buffer.Offset() > 1:  # in files past 2 GiB the data lies behind the flatbuffer
            return int(buffer.Offset())
        return int(buffer._tab.Vector(buffer._tab.Offset(_BUFFER_DATA)))

    def buffer(self, index: int) -> np.ndarray:
        """The bytes of a buffer (a view of the file)."""
        size = self._buffer_size(index)
        start = self.buffer_position(index) if size else 0
        return np.frombuffer(self._bytes, np.uint8, size, start)

    def constant(self, tensor: Tensor) -> np.ndarray:
        """The value of a constant tensor (a view of the file).

        Raises:
            InputError: its bytes are not those of an array of its shape.
        """
        if tensor.buffer is None:
            raise ValueError(f"{tensor.spec} is computed, not constant")
        shape = [size or 0 for size in tensor.spec.shape]
        try:
            return self.buffer(tensor.buffer).view(tensor.spec.dtype).reshape(shape)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{self.path}: the value of {tensor.spec} has {tensor.nbytes:,} bytes, which do "
                "not fill it. The file may be damaged, or packs values; convert the model again."
            ) from error

    def constants(self) -> Iterator[Tensor]:
        """Every constant tensor; one that shares its buffer with an earlier one is left out."""
        seen: set[int] = set()
        for graph in self.tensors:
            for tensor in graph:
                if tensor.buffer is not None and tensor.buffer not in seen:
                    seen.add(tensor.buffer)
                    yield tensor

    def _tensor(self, subgraph: int, tensor: schema.Tensor) -> Tensor:
        shape = tensor.ShapeAsNumpy().tolist() if tensor.ShapeLength() else []
        if tensor.ShapeSignatureLength() == len(shape) > 0:
            shape = tensor.ShapeSignatureAsNumpy().tolist()
        sizes = tuple(None if size < 0 else size for size in shape)
        spec = TensorSpec(tensor.Name().decode(), sizes, _DTYPES[tensor.Type()])
        nbytes = self._buffer_size(tensor.Buffer())
        if nbytes and self.buffer_position(tensor.Buffer()) + nbytes > len(self._bytes):
            raise ValueError(f"the value of {spec.name!r} lies behind its end")
        return Tensor(subgraph, spec, tensor.Buffer() if nbytes else None, nbytes)

    def _buffer_size(self, index: int) -> int:
        buffer = self.root.Buffers(index)
        return buffer.Size() if buffer.Offset() > 1 else buffer.DataLength()

    def _operator(self, subgraph: int, index: int, operator: schema.Operator) -> Operator:
        code = self.root.OperatorCodes(operator.OpcodeIndex())
        # Codes below 127 are in the older, narrower field (schema.fbs, OperatorCode).
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        custom = number == _CUSTOM
        name = code.CustomCode().decode() if custom else _OPERATOR_NAMES[number]
        inputs = operator.InputsAsNumpy().tolist() if operator.InputsLength() else []
        outputs = operator.OutputsAsNumpy().tolist() if operator.OutputsLength() else []
        return Operator(subgraph, index, name, tuple(inputs), tuple(outputs), custom)

    def _signature(self, definition: schema.SignatureDef) -> Signature:
        tensors = self.tensors[definition.SubgraphIndex()]

        def named(entry: schema.TensorMap) -> TensorSpec:
            return replace(tensors[entry.TensorIndex()].spec, name=entry.Name().decode())

        return Signature(
            tuple(named(definition.Inputs(i)) for i in range(definition.InputsLength())),
            tuple(named(definition.Outputs(i)) for i in range(definition.OutputsLength())),
        )

    def _bare_signature(self, main: schema.SubGraph) -> Signature:
        tensors = self.tensors[0]
        return Signature(
            tuple(tensors[main.Inputs(i)].spec for i in range(main.InputsLength())),
            tuple(tensors[main.Outputs(i)].spec for i in range(main.OutputsLength())),
        )


def layer_of(name: str) -> str:
    """The Keras layer that a tensor or op comes from, such as "encoder/dense"; "" when unknown.

    Keras opens a layer's name scope twice (to build, then to call), so TensorFlow numbers every
    one of them: "model_1/encoder_1/dense_1/MatMul". Scopes without a number are the op's own.
    """
    layers = []
    for part in name.split("@")[0].split(";")[0].split("/")[1:-1]:
        match = re.fullmatch(r"(.+)_\d+", part)
        if not match:
            break
        layers.append(match[1])
    return "/".join(layers)


def _map(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}). Check the path and its rights."
        ) from error
    except ValueError as error:  # what mmap says of an empty file
        raise InputError(f"{path}: the file is empty. Convert the model again.") from error

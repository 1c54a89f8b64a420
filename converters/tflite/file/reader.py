"""Reads a .tflite file from its flatbuffer, without running or unpacking it."""

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
from tfmp.converters.tflite.file.objects import IDENTIFIER, unpacked

# tensorflow/lite/tools/optimize/reduced_precision_metadata.h: an inference type, then "acc" and
# an accumulation type. XNNPACK reads it before it picks FP16 kernels on an ARM CPU.
PROMISE, PROMISED = "reduced_precision_support", b"fp16acc"


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
        metadata: the bytes of each named metadata entry.
        content: the file as objects.
    """

    def __init__(self, path: Path) -> None:
        """Maps the file and reads all of it but the weights.

        Raises:
            InputError: the file is missing, unreadable or not a whole TFLite model.
        """
        self.path = path
        _check_start(path)
        try:
            self.content = unpacked(path)
            self._read()
        except (struct.error, IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
            # What following an offset into nowhere can raise.
            raise InputError(
                f"{path}: a damaged TFLite model ({error}). It may be truncated; convert the model "
                "again."
            ) from error

    def _read(self) -> None:
        model, graphs = self.content, self.content.subgraphs
        self.tensors = tuple(
            tuple(self._tensor(number, tensor) for tensor in graph.tensors)
            for number, graph in enumerate(graphs)
        )
        self.operators = tuple(
            self._operator(number, index, operator)
            for number, graph in enumerate(graphs)
            for index, operator in enumerate(graph.operators or ())
        )
        entries = ((entry.name.decode(), entry.buffer) for entry in model.metadata)
        self.metadata = {name: model.buffers[index].data.tobytes() for name, index in entries}
        bare = (self.tensors[0][index].spec for index in graphs[0].inputs)
        given = (self.tensors[0][index].spec for index in graphs[0].outputs)
        self.signatures = {
            definition.signatureKey.decode(): self._signature(definition)
            for definition in model.signatureDefs or ()
        } or {"": Signature(tuple(bare), tuple(given))}

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs of the default signature, in its order."""
        return self.signature().inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The outputs of the default signature, in its order."""
        return self.signature().outputs

    @cached_property
    def has_fp16_weights(self) -> bool:
        """Whether any constant is float16."""
        return any(tensor.spec.dtype == "float16" for tensor in self.constants())

    @cached_property
    def flex_ops(self) -> list[str]:
        """TensorFlow ops that plain LiteRT cannot run."""
        flex = {one.name for one in self.operators if one.custom and one.name.startswith("Flex")}
        return sorted(flex)

    @property
    def accumulation(self) -> str | None:
        """The sums that the file allows: "fp16", "fp32", or None when it says nothing."""
        value = self.metadata.get(PROMISE, b"")
        return value.removeprefix(PROMISED).decode() if value.startswith(PROMISED) else None

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

    def constant(self, tensor: Tensor) -> np.ndarray:
        """The value of a constant tensor (a view of the file).

        Raises:
            InputError: its bytes are not those of an array of its shape.
        """
        assert tensor.buffer is not None, "it is computed, not constant"
        shape = [size or 0 for size in tensor.spec.shape]
        try:
            data = self.content.buffers[tensor.buffer].data
            return data.view(tensor.spec.dtype).reshape(shape)
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

    def _tensor(self, subgraph: int, tensor: schema.TensorT) -> Tensor:
        sizes = [] if tensor.shape is None else tensor.shape.tolist()
        if tensor.shapeSignature is not None and len(tensor.shapeSignature) == len(sizes):
            sizes = tensor.shapeSignature.tolist()
        shape = tuple(None if size < 0 else size for size in sizes)
        spec = TensorSpec(tensor.name.decode(), shape, _DTYPES[tensor.type])
        data = self.content.buffers[tensor.buffer].data
        nbytes = 0 if data is None else data.nbytes
        return Tensor(subgraph, spec, tensor.buffer if nbytes else None, nbytes)

    def _operator(self, subgraph: int, index: int, operator: schema.OperatorT) -> Operator:
        code = self.content.operatorCodes[operator.opcodeIndex]
        # Codes below 127 are in the older, narrower field (schema.fbs, OperatorCode).
        number = max(code.builtinCode, code.deprecatedBuiltinCode)
        custom = number == _CUSTOM
        name = code.customCode.decode() if custom else _OPERATOR_NAMES[number]
        inputs, outputs = (
            () if one is None else tuple(one.tolist())
            for one in (operator.inputs, operator.outputs)
        )
        return Operator(subgraph, index, name, inputs, outputs, custom)

    def _signature(self, definition: schema.SignatureDefT) -> Signature:
        tensors = self.tensors[definition.subgraphIndex]
        inputs, outputs = (
            tuple(replace(tensors[e.tensorIndex].spec, name=e.name.decode()) for e in half)
            for half in (definition.inputs or (), definition.outputs or ())
        )
        return Signature(inputs, outputs)


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


def _check_start(path: Path) -> None:
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}). Check the path and its rights."
        ) from error
    if not start:
        raise InputError(f"{path}: the file is empty. Convert the model again.")
    if start[4:] != IDENTIFIER:
        raise InputError(
            f"{path}: not a TFLite model: expected the mark {IDENTIFIER.decode()!r} at byte 4, "
            f"received {start[4:]!r}. It may be truncated or misnamed; convert the model again."
        )

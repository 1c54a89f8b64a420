"""Rewrites a .tflite file so that the values between its parts come out, or go in, or both."""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from tfmp.converters.explain.attribution import Operation, Part, Seam, given, parts_of
from tfmp.converters.shared.tensors import TensorSpec
from tfmp.converters.tflite.export import tell_apart
from tfmp.converters.tflite.file import Operator, TFLiteModel, layer_of, pack, unpacked

_SIGNATURE = b"serving_default"

# Dtypes whose errors are distances. Shapes and indices stay connected: LiteRT does not hand out
# those that it knows before it runs.
_FLOATING = ("float32", "float16")

# The part of every operator of the graph, by the operator's index.
Grouping = Mapping[int, str]


@dataclass(frozen=True)
class SeamedFile:
    """A file that can be written anew, open at its seams.

    Attributes:
        path: path of the file.
        signature: name of the entry point to look at; the first one if None.
    """

    path: Path
    signature: str | None = None

    @cached_property
    def model(self) -> TFLiteModel:
        """The file, read without its weights."""
        return TFLiteModel(self.path)

    @cached_property
    def number(self) -> int:
        """Index of the subgraph that the signature runs."""
        definitions = self.model.content.signatureDefs
        return int(definitions[self._position].subgraphIndex) if definitions else 0

    @cached_property
    def _position(self) -> int:
        """Index of the signature."""
        return list(self.model.signatures).index(self.signature) if self.signature else 0

    @cached_property
    def outputs(self) -> dict[str, str]:
        """The tensor behind each output."""
        definitions = self.model.content.signatureDefs
        if not definitions:
            specs = self.model.signature(self.signature).outputs
            return {spec.name: spec.name for spec in specs}
        entries = definitions[self._position].outputs
        return {entry.name.decode(): self.name(entry.tensorIndex) for entry in entries}

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs of the signature."""
        return self.model.signature(self.signature).inputs

    @property
    def graph(self) -> str:
        """Name of the subgraph that the signature runs."""
        name: bytes | None = self.model.content.subgraphs[self.number].name
        return (name or b"").decode()

    @cached_property
    def operators(self) -> list[Operator]:
        """The operators that compute something from the inputs, in the order of execution."""
        known = {
            index
            for index, tensor in enumerate(self.model.tensors[self.number])
            if tensor.buffer is not None
        }
        found = []
        for operator in self.model.operators:
            if operator.subgraph != self.number:
                continue
            read = [index for index in operator.inputs if index >= 0]
            # Weights on their way from FP16 to FP32, and what follows from fixed shapes alone:
            # LiteRT computes such values before it runs, and does not hand them out.
            if read and (known.issuperset(read) or self._asks_a_fixed_shape(operator)):
                known.update(operator.outputs)
            else:
                found.append(operator)
        return found

    def _asks_a_fixed_shape(self, operator: Operator) -> bool:
        shape = self.model.tensors[self.number][operator.inputs[0]].spec.shape
        return operator.name == "SHAPE" and None not in shape

    def name(self, tensor: int) -> str:
        """The name of a tensor of the graph."""
        return self.model.tensors[self.number][tensor].spec.name

    def by_layer(self) -> dict[int, str]:
        """Operators by Keras layer; an operator that belongs to no layer stands for its result."""
        return {
            operator.index: layer_of(self.name(operator.outputs[0]))
            or _short(self.name(operator.outputs[0]))
            for operator in self.operators
        }

    def by_node(self, layer: str) -> dict[int, str]:
        """The operators of one layer one by one, and all others together."""
        layers = self.by_layer()
        return {
            operator.index: self.name(operator.outputs[0])
            if layers[operator.index] == layer
            else ""
            for operator in self.operators
        }

    def unpacked(self) -> schema.ModelT:
        """The whole file as objects, with one signature."""
        model = unpacked(self.path)
        if not model.signatureDefs:
            bare = schema.SignatureDefT()
            bare.subgraphIndex, bare.signatureKey = 0, _SIGNATURE
            bare.inputs = [_entry(self.name(i), i) for i in model.subgraphs[0].inputs]
            model.signatureDefs = [bare]
        model.signatureDefs = [model.signatureDefs[self._position]]
        return model


def _short(name: str) -> str:
    """The name without the scope of the whole model and without the names of fused operations."""
    first = name.partition(";")[0]
    return first.partition("/")[2] or first


class Seams:
    """The values that pass from one part of a file to another."""

    def __init__(self, file: SeamedFile, groups: Grouping) -> None:
        self._file, self._groups = file, groups
        self._readers: dict[int, set[str]] = {}
        for operator in file.operators:
            for tensor in operator.inputs:
                self._readers.setdefault(tensor, set()).add(groups[operator.index])
        self._makers = {
            tensor: groups[operator.index]
            for operator in file.operators
            for tensor in operator.outputs
        }
        outputs = set(file.model.content.subgraphs[file.number].outputs.tolist())
        self.tensors = [
            tensor
            for operator in file.operators
            for tensor in operator.outputs
            if self._crosses(tensor, tensor in outputs)
        ]

    def _crosses(self, tensor: int, is_output: bool) -> bool:
        if self._file.model.tensors[self._file.number][tensor].spec.dtype not in _FLOATING:
            return False
        maker = self._makers[tensor]
        return bool(self._readers.get(tensor, set()) - {maker} or (is_output and maker))

    @property
    def names(self) -> list[str]:
        """The names of the values."""
        return [self._file.name(tensor) for tensor in self.tensors]

    def parts(self) -> tuple[Part, ...]:
        """The parts between the seams."""
        tensors = self._file.model.tensors[self._file.number]
        seams = [
            Seam(
                tensors[tensor].spec.name,
                self._makers[tensor],
                tuple(sorted(self._readers.get(tensor, ()))),
                floating=True,
            )
            for tensor in self.tensors
        ]
        nodes = [
            Operation(self._groups[op.index], op.name, self._file.name(op.outputs[0]))
            for op in self._file.operators
        ]
        return parts_of(nodes, seams)

    def exposed(self, path: Path) -> None:
        """Writes the file with its seams as outputs."""
        model = self._file.unpacked()
        _give(model, dict(zip(self.names, self.tensors, strict=True)))
        pack(model, path)

    def cut(self, path: Path) -> tuple[list[str], list[str]]:
        """Writes the file with every part reading the values at its seams from inputs.

        Returns:
            Names of its inputs and of its outputs.
        """
        model = self._file.unpacked()
        graph, (signature,) = model.subgraphs[signature_graph(model)], model.signatureDefs
        for tensor, name in zip(self.tensors, self.names, strict=True):
            own = self._makers[tensor]
            elsewhere = copy(graph.tensors[tensor])
            elsewhere.name, elsewhere.buffer = given(name).encode(), 0
            graph.tensors.append(elsewhere)
            index = len(graph.tensors) - 1
            for operator in self._file.operators:
                if self._groups[operator.index] != own:
                    inputs = np.array(graph.operators[operator.index].inputs)
                    inputs[inputs == tensor] = index
                    graph.operators[operator.index].inputs = inputs
            signature.inputs.append(_entry(given(name), index))
        wanted = {
            name: tensor
            for name, tensor in zip(self.names, self.tensors, strict=True)
            if self._makers[tensor]
        }
        _give(model, wanted)
        _prune(model)
        pack(model, path)
        return [entry.name.decode() for entry in signature.inputs], list(wanted)


def signature_graph(model: schema.ModelT) -> int:
    """The index of the subgraph that the only signature runs."""
    return int(model.signatureDefs[0].subgraphIndex)


def rename(path: Path, names: Mapping[str, str]) -> None:
    """Gives inputs and outputs of a file's signature other names."""
    model = SeamedFile(path).unpacked()
    for entry in (*model.signatureDefs[0].inputs, *model.signatureDefs[0].outputs):
        entry.name = names.get(entry.name.decode(), entry.name.decode()).encode()
    pack(model, path)


def _give(model: schema.ModelT, outputs: Mapping[str, int]) -> None:
    """Makes tensors the outputs of the graph and of its signature."""
    model.signatureDefs[0].outputs = [_entry(name, index) for name, index in outputs.items()]
    tell_apart(model)


def _entry(name: str, tensor: int) -> schema.TensorMapT:
    entry = schema.TensorMapT()
    entry.name, entry.tensorIndex = name.encode(), int(tensor)
    return entry


def _prune(model: schema.ModelT) -> None:
    """Takes away operators and inputs that no output needs, and the weights of those."""
    graph, (signature,) = model.subgraphs[signature_graph(model)], model.signatureDefs
    needed = set(map(int, graph.outputs))
    kept = []
    for operator in reversed(graph.operators):
        if needed.intersection(map(int, operator.outputs)):
            kept.append(operator)
            needed.update(map(int, operator.inputs))
    graph.operators = kept[::-1]
    signature.inputs = [entry for entry in signature.inputs if entry.tensorIndex in needed]
    graph.inputs = np.array([entry.tensorIndex for entry in signature.inputs], np.int32)
    used = {
        tensor.buffer
        for one in model.subgraphs
        for index, tensor in enumerate(one.tensors)
        if one is not graph or index in needed
    }
    used.update(entry.buffer for entry in model.metadata or ())
    for index, buffer in enumerate(model.buffers):
        if index not in used:
            buffer.data = None

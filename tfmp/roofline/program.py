"""XLA's programs (HLO), as TensorFlow and JAX hand them to XLA."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

# Bytes of one number, by XLA's name of the dtype (xla/primitive_util.h). Tokens have no data.
_BYTES = {
    **dict.fromkeys(("S16", "U16", "F16", "BF16"), 2),
    **dict.fromkeys(("S32", "U32", "F32"), 4),
    **dict.fromkeys(("S64", "U64", "F64", "C64"), 8),
    "C128": 16,
    "TOKEN": 0,
}

_FLOATS = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}

# Fields of an instruction that do not change its result.
_NAMES = "name id operand_ids called_computation_ids metadata frontend_attributes statistics_viz"


@dataclass(frozen=True)
class Array:
    """The shape of one array.

    Attributes:
        dtype: XLA's name, such as "F32".
        dims: number of elements along each axis.
    """

    dtype: str
    dims: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.dims)

    @property
    def bytes(self) -> int:
        """Bytes in memory."""
        return self.size * _BYTES.get(self.dtype, 1)

    @property
    def floating(self) -> str | None:
        """NumPy's name of a floating-point dtype; None for other dtypes."""
        return _FLOATS.get(self.dtype)


Shape: TypeAlias = "Array | tuple[Shape, ...]"


@dataclass(frozen=True)
class Instruction:
    """One operation of a program.

    Attributes:
        proto: XLA's `HloInstructionProto`, with all settings.
        shape: the shape of its result.
    """

    proto: Any
    shape: Shape

    @property
    def opcode(self) -> str:
        """Its operation, such as "dot"."""
        return self.proto.opcode

    @property
    def calls(self) -> list[int]:
        """The numbers of the computations that it calls."""
        return list(self.proto.called_computation_ids)

    @cached_property
    def settings(self) -> bytes:
        """All that tells it from another operation on the same operands."""
        proto = type(self.proto)()
        proto.CopyFrom(self.proto)
        for name in _NAMES.split():
            proto.ClearField(name)
        return proto.SerializeToString(deterministic=True)

    @property
    def array(self) -> Array:
        """The shape of the result, or of the first array in it."""
        shape = self.shape
        while isinstance(shape, tuple):
            shape = shape[0] if shape else Array("TOKEN", ())
        return shape


@dataclass(frozen=True)
class Program:
    """A whole program.

    Attributes:
        computations: by number, the instructions that the result of a function depends on, as XLA
            removes the others. Operands stand before the instructions that use them, so that the
            last one gives the result.
        entry: number of the function that begins.
    """

    computations: Mapping[int, Sequence[Instruction]]
    entry: int


def read_program(content: bytes) -> Program:
    """The program in a serialized `HloModuleProto`."""
    from tensorflow.compiler.xla.service.hlo_pb2 import HloModuleProto

    module = HloModuleProto.FromString(content)
    found = {each.id: _computation(each) for each in module.computations}
    return Program(found, module.entry_computation_id)


def _computation(proto: Any) -> Sequence[Instruction]:
    needed = {proto.root_id}
    for each in reversed(proto.instructions):
        if each.id in needed:
            needed.update(each.operand_ids)
    found = (each for each in proto.instructions if each.id in needed)
    return [Instruction(each, _shape(each.shape)) for each in found]


def _shape(proto: Any) -> Shape:
    from tensorflow.compiler.xla.xla_data_pb2 import PrimitiveType

    name = PrimitiveType.Name(proto.element_type)
    if name == "TUPLE":
        return tuple(map(_shape, proto.tuple_shapes))
    return Array(name, tuple(proto.dimensions))

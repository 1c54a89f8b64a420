"""Types in the ONNX schemas: the operands that share a type, and whether it may be float16.

The facts come from `onnx.defs` at the model's own opset. The tables below are about values, which
schemas do not describe.
"""

from dataclasses import dataclass
from functools import cache, cached_property

import onnx
import onnx_ir as ir

from tfmp.shared.numerics import BFLOAT16, FLOAT16

FP16, BF16, FP32 = ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT

# The types of 16 bits that a graph may compute in, with their numbers.
HALVES = {FP16: FLOAT16, BF16: BFLOAT16}

# Ops that copy elements without arithmetic: their precision may follow their neighbours', and
# what they write needs no rounding. (ONNX operator documentation, "tensor" group.)
MOVERS = frozenset(
    """Compress Concat DepthToSpace Expand Flatten Gather GatherElements GatherND Identity Pad
    Reshape ReverseSequence ScatterElements ScatterND Slice SpaceToDepth Split Squeeze Tile
    Transpose Trilu Unsqueeze""".split()
)

# Ops that pick, negate or clear one of their operands: exact in every precision.
EXACT = MOVERS | frozenset(
    """Abs Clip GlobalMaxPool Max MaxPool MaxUnpool Min Neg OneHot ReduceMax ReduceMin Relu
    RoiMaxPool Round Ceil Floor Sign ThresholdedRelu TopK Unique Where""".split()
)


@dataclass(frozen=True)
class Slot:
    """The declared type of one input or output of a node.

    Attributes:
        variable: name of its type variable, or None for a fixed type.
        half: whether the type of 16 bits is allowed that was asked for.
    """

    variable: str | None
    half: bool


@dataclass(frozen=True)
class Slots:
    """The declared types of a node's actual inputs and outputs, in order."""

    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]

    @cached_property
    def _read(self) -> frozenset[str | None]:
        return frozenset(slot.variable for slot in self.inputs)

    @cached_property
    def takes_half(self) -> bool:
        """Whether the type of 16 bits is allowed for every type that may be chosen."""
        return all(slot.half for slot in (*self.inputs, *self.outputs) if slot.variable)

    @cached_property
    def has_free_output(self) -> bool:
        """Whether an output has a type that no input determines."""
        return not all(self.follows_input(slot) for slot in self.outputs)

    def bound_once(self, slot: Slot) -> bool:
        """Whether no other operand shares the type of `slot`, which may then be any type."""
        everywhere = [other.variable for other in (*self.inputs, *self.outputs)]
        return slot.variable is not None and everywhere.count(slot.variable) == 1

    def follows_input(self, slot: Slot) -> bool:
        """Whether an output has the type of an input."""
        return slot.variable in self._read


def slots(node: ir.Node, opset: int, low: ir.DataType = FP16) -> Slots | None:
    """The slots of a node; None for an op that ONNX does not have.

    Args:
        node: the node.
        opset: version of its domain.
        low: the type that `Slot.half` is about, one of `HALVES`.
    """
    name = f"tensor({HALVES[low].name})"
    return _slots(node.op_type, node.domain, opset, len(node.inputs), len(node.outputs), name)


@cache
def _slots(
    op_type: str, domain: str, opset: int, inputs: int, outputs: int, half: str
) -> Slots | None:
    if not onnx.defs.has(op_type, opset, domain):
        return None
    schema = onnx.defs.get_schema(op_type, opset, domain)
    allowed = {
        constraint.type_param_str: half in constraint.allowed_type_strs
        for constraint in schema.type_constraints
    }

    def expand(formals: list[onnx.defs.OpSchema.FormalParameter], count: int) -> tuple[Slot, ...]:
        result = []
        for index in range(count):
            formal = formals[min(index, len(formals) - 1)]
            name = formal.type_str
            if name not in allowed:
                result.append(Slot(None, name == half))
                continue
            # Each operand of a heterogeneous variadic has a type of its own.
            own = name if formal.is_homogeneous else f"{name}#{index}"
            result.append(Slot(own, allowed[name]))
        return tuple(result)

    return Slots(expand(list(schema.inputs), inputs), expand(list(schema.outputs), outputs))


def is_float(value: ir.Value | None, dtype: ir.DataType = FP32) -> bool:
    """Whether `value` is a tensor (not a sequence or optional) of `dtype`."""
    if value is None:
        return False
    kind = value.type
    return type(kind) is ir.TensorType and kind.dtype == dtype


def is_half(value: ir.Value | None) -> bool:
    """Whether `value` is a tensor of float16 or bfloat16."""
    return value is not None and type(value.type) is ir.TensorType and value.type.dtype in HALVES


def retype(value: ir.Value, dtype: ir.DataType) -> None:
    """Makes `value` a tensor of `dtype`; `value.dtype = dtype` would change clones of it too."""
    value.type = ir.TensorType(dtype)


# Compared by identity: onnx_ir's types are protocols, whose isinstance takes microseconds.
_CONTAINERS = (ir.SequenceType, ir.OptionalType)


def contains_floats(value: ir.Value | None) -> bool:
    """Whether `value` is a sequence or optional of float32 tensors."""
    return value is not None and type(value.type) in _CONTAINERS and "FLOAT" in str(value.type)


def holds_floats(value: ir.Value | None) -> bool:
    """Whether `value` is a tensor of float32 or of 16 bits, or a container of float32 ones."""
    return is_float(value) or is_half(value) or contains_floats(value)


def reads_any(node: ir.Node, slot: Slot, described: Slots | None) -> bool:
    """Whether `node` may read this operand in either precision, and writes the same."""
    if described is None or not described.bound_once(slot):
        return False
    # Inference of some ops takes the type of an output from an operand that shares no type
    # variable with it (RMSNormalization), and sequences fix that of their elements.
    return node.op_type in ("Cast", "CastLike") or not any(map(holds_floats, node.outputs))

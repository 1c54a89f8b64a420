"""The report of the FP16 pass, for people and for the file's metadata."""

from collections import Counter
from dataclasses import dataclass

from tfmp.converters.onnx.fp16.edges import REASONS
from tfmp.shared.numerics import FLOAT16, FloatFormat

QUANTIZED = "quantized arithmetic keeps its float32 scales"


@dataclass(frozen=True)
class Island:
    """A node that stays in FP32, and the reason."""

    node: str
    op_type: str
    layer: str
    reason: str

    def describe(self) -> str:
        """The op, its place and the reason, in words."""
        return f"{self.op_type} in {self.layer or self.node}: {self.reason}"


@dataclass(frozen=True)
class ConstantChange:
    """A constant that lost more than rounding when it got 16 bits.

    Attributes:
        name: name of the float32 initializer.
        size: number of elements.
        vanished: number of elements that became zero.
        subnormal: number of elements that lost precision below the smallest normal number.
    """

    name: str
    size: int
    vanished: int
    subnormal: int


@dataclass(frozen=True)
class Fp16Report:
    """The results of the pass.

    Attributes:
        half_nodes: number of nodes that compute in 16 bits.
        casts: number of Cast nodes inserted.
        islands: nodes kept in FP32.
        constants: constants that lost more than rounding.
        rewrites: sentences about patterns that were rewritten so that FP16 can hold them.
        float64_nodes: number of nodes that compute in float64, which stays.
        numbers: the format of 16 bits.
    """

    half_nodes: int
    casts: int
    islands: tuple[Island, ...]
    constants: tuple[ConstantChange, ...]
    rewrites: tuple[str, ...] = ()
    float64_nodes: int = 0
    numbers: FloatFormat = FLOAT16

    def at_edges(self) -> Counter[str]:
        """Number of nodes that stay in FP32 at the edges of the model, by the reason."""
        return Counter(one.reason for one in self.islands if one.reason in REASONS)

    def notes(self) -> list[str]:
        """Facts that a user should know, one sentence each."""
        notes, title = [], self.numbers.title
        if not self.half_nodes:
            notes.append(f"nothing in this file computes in {title}")
        quantized = sum(one.reason == QUANTIZED for one in self.islands)
        if quantized:
            notes.append(
                f"the model is quantized: integers and their sums, and {quantized} nodes around "
                f"them, stay as they are. For {title}, convert the model that was quantized"
            )
        if self.float64_nodes:
            notes.append(
                f"nodes that compute in float64 and stay as they are: {self.float64_nodes} (where "
                "the model asks for it, make it in float32 to have them in 16 bits)"
            )
        if at_edges := self.at_edges():
            counts = (f"{n} node{'s' * (n > 1)} {reason}" for reason, n in at_edges.items())
            notes.append(f"kept in FP32: {', '.join(counts)}")
        alike: dict[tuple[str, str], list[Island]] = {}
        for one in self.islands:
            if one.reason not in (*REASONS, QUANTIZED):
                alike.setdefault((one.op_type, one.reason), []).append(one)
        notes += [
            f"kept in FP32: {same[0].describe()}"
            + (f" ({len(same)} nodes of this kind)" if len(same) > 1 else "")
            for same in alike.values()
        ]
        notes += [f"rewritten: {text}" for text in self.rewrites]
        for change in self.constants:
            if change.vanished:
                notes.append(
                    f"{change.vanished} of {change.size} values of {change.name} became zero in "
                    f"{title}"
                )
        return notes

"""What the FP16 pass did, for people and for the file's metadata."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Island:
    """A node that stays in FP32, and why."""

    node: str
    op_type: str
    layer: str
    reason: str

    def describe(self) -> str:
        """Op, where it is and why it stays."""
        return f"{self.op_type} in {self.layer or self.node}: {self.reason}"


@dataclass(frozen=True)
class ConstantChange:
    """What rounding to FP16 did to one constant beyond an ordinary rounding error.

    Attributes:
        name: of the float32 initializer.
        size: number of elements.
        vanished: how many became zero.
        subnormal: how many lost precision below FP16's smallest normal number.
    """

    name: str
    size: int
    vanished: int
    subnormal: int


@dataclass(frozen=True)
class Fp16Report:
    """What the pass did.

    Attributes:
        fp16_nodes: number of nodes that compute in FP16.
        casts: number of Cast nodes inserted.
        islands: nodes kept in FP32.
        constants: constants that lost more than rounding.
        rewrites: what was rewritten so that FP16 can hold it.
    """

    fp16_nodes: int
    casts: int
    islands: tuple[Island, ...]
    constants: tuple[ConstantChange, ...]
    rewrites: tuple[str, ...] = ()

    def notes(self) -> list[str]:
        """What a user should know, one sentence each."""
        notes = [f"kept in FP32: {island.describe()}" for island in self.islands]
        notes += [f"rewritten: {text}" for text in self.rewrites]
        for change in self.constants:
            if change.vanished:
                notes.append(
                    f"{change.vanished} of {change.size} values of {change.name} became zero in "
                    "FP16"
                )
        return notes

"""NonFinite: the result of `locate_nonfinite`, and its words."""

from dataclasses import asdict, dataclass

from tfmp.nonfinite.value_range import ValueRange
from tfmp.precision import ROOT, LayerNode
from tfmp.precision.measuring import FirstOp
from tfmp.shared.report_files import JsonObject


@dataclass(frozen=True)
class NonFinite:
    """The first non-finite value of a training step; false if all values are finite.

    Attributes:
        stage: "data", "weights", "forward", "loss" or "gradient"; "none" if all is finite.
        cause: "data" (the batch came in not finite), "weights" (the weights were not finite
            before the step), "overflow" (finite in float32, too large for the dtype), "invalid"
            (not finite in float32 either, like 0/0 or log(0)), "loss scale" (finite at a lower
            loss scale); "none" if all is finite.
        what: the value that is not finite, in words.
        why: the reason, in words.
        advice: the next step for the user.
        layer: path of the layer, for `keep_float32`; None if no layer is to blame.
        op: the first operation that made the value, if it is known.
        ranges: names and ranges of the values that entered.
        loss_scale: the scale that the step was replayed with.
        finite_at: the largest power of two, as a scale, at which all gradients are finite; None
            where no scale is to blame.
        is_steep: whether code in float32 makes a gradient too large for the layer that gets it.
    """

    stage: str
    cause: str
    what: str
    why: str
    advice: str
    layer: str | None = None
    op: FirstOp | None = None
    ranges: tuple[tuple[str, ValueRange], ...] = ()
    loss_scale: float = 1.0
    finite_at: float | None = None
    is_steep: bool = False

    def __bool__(self) -> bool:
        return self.stage != "none"

    def __str__(self) -> str:
        sentences = [f"{self.what}."]
        if self.why:
            sentences.append(f"{self.why[0].upper()}{self.why[1:]}.")
        if self.op is not None:
            sentences.append(f"First operation: {self.op}.")
        if self.ranges:
            entered = "; ".join(f"{name} {values}" for name, values in self.ranges)
            sentences.append(f"Its inputs: {entered}.")
        return " ".join([*sentences, self.advice]).strip()

    def to_dict(self) -> JsonObject:
        """Everything, as plain JSON types."""
        return asdict(self)


def where(node: LayerNode) -> str:
    """A layer as it reads in sentences."""
    kind = type(node.layer).__name__
    return f"the model ({kind})" if node.path == ROOT else f"layer {node.path} ({kind})"


def path_of(node: LayerNode | None) -> str | None:
    """A layer's path for `keep_float32`; None for the model itself."""
    return None if node is None or node.path == ROOT else node.path


def keep_advice(node: LayerNode | None) -> str:
    """The advice to keep a layer in float32."""
    path = path_of(node)
    if path is None:
        return "Let the operations outside the layers run on float32 tensors."
    return f"Keep it in float32: tfmp.MixedPrecision(keep_float32=[{path!r}])."

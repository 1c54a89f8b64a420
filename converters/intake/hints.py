"""Hints of a model at the meaning of its outputs: the compiled loss, and the last operator.

They are read, not proven: a model may be compiled with any loss. Where nothing can be read, there
is no hint; a model is never refused for the lack of one.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from tfmp.converters.shared.frameworks import TracedFunction

if TYPE_CHECKING:
    import onnx_ir as ir

# What `compile` takes, or what Keras saves of it: a name, a function, an object or its
# configuration; one for all outputs, or in a list, or by output.
Loss: TypeAlias = Any


@dataclass(frozen=True)
class OutputHint:
    """What a model says of one of its outputs; None where it says nothing.

    Attributes:
        loss: Keras's name of the loss that it was compiled with, such as "mean_squared_error".
        activation: the last operator if it tells the meaning, such as "softmax" or "argmax".
        axis: the axis of the output that this operator works along, from the last one: -1, -2.
    """

    loss: str | None = None
    activation: str | None = None
    axis: int | None = None


def traced_hints(names: Sequence[str], traced: TracedFunction, loss: Loss) -> dict[str, OutputHint]:
    """Hints of a model that TensorFlow traced.

    Args:
        names: of the outputs, in the order of the trace.
        traced: the forward pass.
        loss: the compiled loss; None without one.
    """
    try:
        losses = dict(_losses(loss, names))
    except Exception:  # a damaged or foreign configuration says nothing
        losses = {}
    found = {}
    for name, tensor in zip(names, traced.outputs, strict=True):
        try:
            activation, axis = _last_operator(_TracedValue(tensor))
        except Exception:  # a graph that TensorFlow itself cannot look into
            activation = axis = None
        hint = losses.get(name, OutputHint())
        found[name] = replace(hint, activation=activation, axis=axis)
    return {name: hint for name, hint in found.items() if hint != OutputHint()}


def onnx_hints(model: "ir.Model") -> dict[str, OutputHint]:
    """Hints of an ONNX graph."""
    found = {}
    for value in model.graph.outputs:
        activation, axis = _last_operator(_OnnxValue(value))
        if activation is not None:
            found[str(value.name)] = OutputHint(activation=activation, axis=axis)
    return found


# The compiled loss


def _losses(loss: Loss, names: Sequence[str]) -> Iterator[tuple[str, OutputHint]]:
    """The hints of a loss that is one for all outputs, in a list, or by output."""
    by_output: Mapping[str, Loss] = dict.fromkeys(names, loss)
    if isinstance(loss, list | tuple):
        by_output = dict(zip(names, loss, strict=False))
    elif isinstance(loss, Mapping) and "class_name" not in loss:
        by_output = loss
    for name in names:
        loss_name = _name_of(by_output.get(name))
        if loss_name is not None and loss_name.isidentifier():  # a lambda has no name
            # KLDivergence becomes kl_divergence.
            words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", loss_name)
            yield name, OutputHint(words.lower())


def _name_of(loss: Loss) -> str | None:
    """The name of a loss's class or function."""
    if isinstance(loss, Mapping):
        inner = loss.get("config")
        loss = inner if isinstance(inner, str) else loss["class_name"]
    if isinstance(loss, str):
        return loss
    if hasattr(loss, "get_config"):
        return type(loss).__name__
    return getattr(loss, "__name__", None)


# The last operator. TensorFlow and ONNX have one name for most of them.

_ACTIVATIONS = {
    "Softmax": "softmax",
    "LogSoftmax": "log_softmax",
    "Sigmoid": "sigmoid",
    "HardSigmoid": "hard_sigmoid",
    "ArgMax": "argmax",
}
# They change no value, or only its dtype.
_KEEPING = frozenset(
    "Identity StopGradient PreventGradient CheckNumerics EnsureShape Snapshot Cast Reshape Squeeze "
    "Unsqueeze ExpandDims Flatten Transpose".split()
)
_RESHAPING = ("Reshape", "Squeeze", "Unsqueeze", "ExpandDims", "Flatten")

# They work along an axis.
_ALONG = ("Softmax", "LogSoftmax")

# Longer ways lead away from the output.
_MOST_STEPS = 32


def _last_operator(value: "_Value | None") -> tuple[str | None, int | None]:
    """The last operator, and the axis of the output that it works along, where it has one."""
    moves: list[Sequence[int]] = []  # the transpositions behind it, the last one first
    rank = value.rank if value is not None else None
    for _ in range(_MOST_STEPS):
        if value is None or value.op not in _KEEPING:
            break
        if value.op == "Transpose":
            order = value.order(rank)
            moves += [order] if order is not None else []
            rank = None if order is None else rank
        elif value.op in _RESHAPING:
            rank = None  # which axis became which, nobody says
        value = value.input(0)
    if value is None or value.op not in _ACTIVATIONS:
        return None, None
    axis = value.axis(rank) if rank is not None else None
    for move in reversed(moves):
        axis = None if axis is None else move.index(axis % len(move)) - len(move)
    return _ACTIVATIONS[value.op], axis


class _OnnxValue:
    """A value of an ONNX graph."""

    def __init__(self, value: "ir.Value") -> None:
        self._node = value.producer()
        self.op = self._node.op_type if self._node is not None else None
        self.rank = len(value.shape) if value.shape is not None else None

    def axis(self, rank: int) -> int | None:
        """The axis of a softmax, from the last one; None for another operator."""
        if self._node is None or self.op not in _ALONG:
            return None
        axis = self._node.attributes.get_int("axis", -1)
        return axis if axis < 0 else axis - rank

    def order(self, rank: int | None) -> Sequence[int] | None:
        """The order of axes of a transposition."""
        backwards = None if rank is None else [*range(rank)][::-1]
        return self._node.attributes.get_ints("perm", backwards) if self._node else None

    def input(self, index: int) -> "_OnnxValue | None":
        value = self._node.inputs[index] if self._node is not None else None
        return None if value is None else _OnnxValue(value)


class _TracedValue:
    """A tensor of a TensorFlow graph."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor
        self.op: str | None = tensor.op.type
        self.rank: int | None = tensor.shape.rank

    def axis(self, rank: int) -> int | None:
        """The axis of a softmax, which is the last one in TensorFlow; None for another operator."""
        return -1 if self.op in _ALONG else None

    def order(self, rank: int | None) -> Sequence[int] | None:
        """The order of axes of a transposition; None where it is computed."""
        from tensorflow import get_static_value

        found = get_static_value(self._tensor.op.inputs[1])
        return None if found is None else [int(axis) for axis in found]

    def input(self, index: int) -> "_TracedValue":
        return _TracedValue(self._tensor.op.inputs[index])


_Value: TypeAlias = _OnnxValue | _TracedValue

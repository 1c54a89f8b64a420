"""Variables while a graph is traced anew: their handles, or the values that stand for them."""

from collections.abc import Container
from dataclasses import dataclass, replace
from typing import Any

from tfmp.converters.intake.saved.graph import Graph
from tfmp.converters.shared.errors import ConversionError
from tfmp.converters.shared.frameworks import NodeDef, TracedFunction
from tfmp.shared.backend import Tensor

_SETS = {"AssignVariableOp": 0, "AssignAddVariableOp": 1, "AssignSubVariableOp": -1}
_WRITES = ("Assign", "ResourceScatter", "ResourceStridedSlice", "ResourceApply", "ResourceSparse")


@dataclass
class Held:
    """A variable.

    Attributes:
        key: the tensor of the outermost graph that is its handle.
        name: its name.
        dtype: of its value.
        handle: its handle; None inside of loops and branches, which have its value.
        value: its value where that is known: of a state, or inside of loops and branches.
    """

    key: str
    name: str
    dtype: Any
    handle: Tensor | None = None
    value: Tensor | None = None

    def read(self) -> Tensor:
        """Its value now."""
        import tensorflow as tf

        if self.value is not None or self.handle is None:
            return self.value
        return tf.raw_ops.ReadVariableOp(resource=self.handle, dtype=self.dtype)

    def rows(self, node: NodeDef, *indices: Tensor) -> Tensor:
        """What a node reads: the value, or rows of it."""
        import tensorflow as tf

        batch, value = node.attr["batch_dims"].i, self.read()
        return tf.gather(value, *indices, axis=batch, batch_dims=batch) if indices else value

    def change(self, node: NodeDef, *operands: Tensor) -> None:
        """Takes the value that a node writes.

        Raises:
            ConversionError: it writes a part of the value.
        """
        if node.op not in _SETS:
            raise ConversionError(
                f"{node.op} {node.name!r} changes a part of the state {self.name!r} in place, "
                "which a streaming model may not do",
                "Compute its whole new value, with tf.tensor_scatter_nd_update or tf.concat, and "
                "assign that value",
            )
        sign = _SETS[node.op]
        self.value = self.read() + sign * operands[0] if sign else operands[0]

    def holding(self, value: Tensor) -> "Held":
        """The variable as loops and branches have it."""
        return replace(self, handle=None, value=value)


def writes(node: NodeDef) -> bool:
    """Whether a node changes a variable: its first input, as in ResourceScatterUpdate."""
    return node.op.startswith(_WRITES)


def any_writes(graph: Graph) -> bool:
    """Whether a graph, or a function that it calls, changes a variable."""
    return any(writes(node) for one in (graph, *graph.bodies.values()) for node in one.nodes)


def captured(
    traced: TracedFunction, read: Container[str] | None = None
) -> dict[str, Tensor | Held]:
    """What a function reads from outside, for the graph that is being built.

    Args:
        traced: the function.
        read: names of the tensors that are read once the graph is rewritten; None for all.
    """
    import tensorflow as tf

    current, known = tf.compat.v1.get_default_graph(), {}
    for variable in traced.graph.variables:
        current.watch_variable(variable)  # a trace otherwise forgets what it read
        known[id(variable.handle)] = variable.name.partition(":")[0], variable.dtype
    found: dict[str, Tensor | Held] = {}
    for outer, inner in traced.graph.captures:
        if read is not None and inner.name not in read:
            continue  # such as the handle of a table whose values are constants now
        tensor, told = current.capture(outer), known.get(id(outer))
        found[inner.name] = tensor if told is None else Held(inner.name, *told, tensor)
    return found

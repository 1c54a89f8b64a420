"""States that layers keep in their own code: weights that `call` assigns, such as counts and means.

In a 16-bit layer `self.count.assign_add(1.0)` reads the weight in 16 bits, where 2048 + 1 is 2048.
"""

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager

import keras
from keras import layers, ops

from tfmp.precision import NARROW_DTYPES
from tfmp.precision.layer_tree import is_builtin
from tfmp.precision.tracing.traced_graph import Graph, Marks
from tfmp.shared.backend import Tensor


class StateWatch(keras.StatelessScope):
    """The scope of a trace, which sees the weights that layers read and assign.

    Keras's own layers are not watched: their statistics are float32 under every policy, and the
    state of a stateful RNN is one more of its steps.

    Attributes:
        assigned: ids of the weights that code of the user's own assigns.
    """

    def __init__(self, marks: Marks, known: frozenset[int] = frozenset()) -> None:
        """Makes a scope for one trace.

        Args:
            marks: those of the trace.
            known: the `assigned` of an earlier trace: only reads of these weights are marked.
        """
        super().__init__(collect_losses=True)
        self.assigned: set[int] = set()
        self._marks = marks
        self._known = known
        self._running: list[layers.Layer] = []
        self._updates: list[tuple[layers.Layer, keras.Variable, Tensor]] = []

    @contextmanager
    def running(self, layer: layers.Layer) -> Iterator[None]:
        """The block in which a layer's code runs."""
        self._running.append(layer)
        try:
            yield
        finally:
            self._running.pop()

    def get_current_value(self, variable: keras.Variable) -> Tensor | None:
        """The value that the trace has assigned; of a state read in 16 bits, a marked one."""
        value = super().get_current_value(variable)
        if value is None and id(variable) in self._known and variable.dtype in NARROW_DTYPES:
            value = self._marks.add(variable, ops.cast(variable._value, variable.dtype))
        return value

    def add_update(self, update: tuple[keras.Variable, Tensor]) -> None:
        """Takes the new value of a variable."""
        super().add_update(update)
        variable, value = update
        if not self._running or is_builtin(self._running[-1]):
            return
        self.assigned.add(id(variable))
        if id(variable) in self._known:
            # A tensor that the model holds is in no graph; its copy is.
            self._updates.append((self._running[-1], variable, ops.copy(value)))

    def new_values(self) -> list[Tensor]:
        """The values that own code assigned, for the end of the traced function's results."""
        return [value for _, _, value in self._updates]

    def rounded(self, graph: Graph) -> Mapping[int, str]:
        """The layers that compute a state from its old value in 16 bits: its name, by their id.

        Args:
            graph: the traced function; `new_values` are taken off its outputs.
        """
        first = len(graph.outputs) - len(self._updates)
        values = graph.outputs[first:]
        del graph.outputs[first:]
        found: dict[int, str] = {}
        for (layer, variable, _), value in zip(self._updates, values, strict=True):
            if id(layer) not in found and _comes_from(graph, value, id(variable)):
                found[id(layer)] = variable.name
        return found


def _comes_from(graph: Graph, value: Hashable, variable: int) -> bool:
    """Whether a layer's own code computes a value from the marked reading of a variable."""
    pending, seen = [value], set()
    while pending:
        tensor = pending.pop()
        if tensor in seen:
            continue
        seen.add(tensor)
        origin = graph.origin(tensor)
        if variable == origin.layer or variable in origin.inside:
            return True
        if origin.layer is None:  # behind another layer's result its code begins
            pending += origin.sources
    return False

"""Layers whose results get gradients past FP16's range from code that is kept in float32.

`x / (norm(x) + 1e-8)` multiplies the gradients of rows of zeros by 1e8. It computes in float32, but
its argument's gradient is cast to the dtype of the layer that made the argument. So the model runs
backwards once in float32, with every layer's result replaced by numbers where such code is steep.
"""

from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from functools import partial

import keras
import numpy as np
from keras import ops, tree

from tfmp.precision.layer_tree import LayerNode, is_builtin, is_graph, operations_of
from tfmp.shared.backend import Tensor, TensorTree
from tfmp.shared.numerics import FLOAT16

# Norms and deviations are steep in rows of zeros; powers and logarithms at numbers beside 0, which
# are FP16's smallest ones, though the others in a row are not small.
_PLACES = np.array([7 * [0.0], [FLOAT16.smallest_subnormal, *6 * [1.0]]], "float32")

Call = Callable[..., TensorTree]


def steep_places(
    entry: LayerNode, narrow: frozenset[int], inputs: tuple[TensorTree, TensorTree]
) -> dict[int, float]:
    """The layers in 16 bits whose results get too large gradients, with the largest of these.

    A gradient of 1 arrives at the results of all code in float32. A layer that is found counts as
    float32 from then on, so that the layers before it are found up to one with a kernel.

    Args:
        entry: what is called in a training step, with all its layers in float32.
        narrow: ids of the layers that are to be in 16 bits.
        inputs: tensors to call it with, of zeros, by position and by name.
    """
    found: dict[int, float] = {}
    is_steep = False
    while True:
        more: dict[int, float] = {}
        for key, size in _Run(entry, narrow, found.keys(), True).gradients(inputs):
            is_steep = True
            if key in narrow - found.keys():
                more[key] = max(size, more.get(key, 0.0))
        found.update(more)
        if not more:
            break
    if is_steep:
        # Rows of zeros stay zeros in layers without an offset, and all of these get the gradients.
        for key, size in _Run(entry, narrow, found.keys(), False).gradients(inputs):
            if key in narrow:
                found.setdefault(key, size)
    return found


class _Run:
    """A pass in which every layer's result may be replaced, forwards and backwards.

    Args:
        entry: the model, in float32.
        narrow: ids of the layers that are to be in 16 bits.
        found: ids of those that are not, though a plan would have them so.
        replaces: whether numbers take the place of every result; if not, gradients pass through
            all layers.
    """

    def __init__(
        self, entry: LayerNode, narrow: frozenset[int], found: Set[int], replaces: bool
    ) -> None:
        self.entry, self.narrow, self.found, self.replaces = entry, narrow - found, found, replaces
        self.place: Tensor = _PLACES[0]
        self.owners: list[int] = []
        self.arriving: list[Tensor] = []
        self.tap: Callable[[Tensor], Tensor] = lambda value: value

    def gradients(self, inputs: tuple[TensorTree, TensorTree]) -> Iterator[tuple[int, float]]:
        """Ids of layers whose results get gradients past the range, and the largest of these."""
        differentiate = _by_jax if keras.backend.backend() == "jax" else _by_tensorflow
        function = differentiate(self, inputs)
        for place in _PLACES if self.replaces else _PLACES[:1]:
            for key, gradient in zip(self.owners, function(place), strict=True):
                sizes = np.abs(np.asarray(gradient, "float64"))
                largest = float(np.max(sizes[np.isfinite(sizes)], initial=0.0))
                if largest >= FLOAT16.overflow_threshold:
                    yield key, largest

    def objective(self, inputs: tuple[TensorTree, TensorTree], place: Tensor) -> Tensor:
        """A number whose gradient with respect to each result in float32 is 1 or -1.

        Args:
            inputs: as in `steep_places`.
            place: the numbers that stand in turn in every result.
        """
        self.owners, self.arriving, self.place = [], [], place
        model = self.entry.layer
        positional, keywords = inputs
        kwargs = {"training": True} if model._call_has_training_arg else {}
        with keras.StatelessScope(collect_losses=True), _watched(self):
            outputs = model(*positional, **keywords, **kwargs)
        self._arrives(outputs)
        return sum(self.arriving, start=ops.zeros(()))

    def call_layer(
        self, node: LayerNode, call: Call, args: tuple[TensorTree, ...], kwargs: TensorTree
    ) -> TensorTree:
        """Calls a layer; cuts its arguments off where no gradient passes, and taps its results."""
        key, is_leaf = id(node.layer), not any(child.head is None for child in node.children)
        if self.replaces and is_leaf and self._ends_here(node):
            if key not in self.narrow:
                self._arrives((args, kwargs))
            args, kwargs = _each_float(ops.stop_gradient, (args, kwargs))
        outputs = call(*args, **kwargs)
        if is_graph(node.layer):
            return outputs
        if key not in self.narrow:
            self._arrives(outputs)

        def replaced(value: Tensor) -> Tensor:
            if self.replaces:
                value = ops.where(ops.isfinite(value), value, ops.zeros_like(value))
                turns = sum(map(ops.convert_to_tensor, _along_axes(value, np.arange)), start=0)
                numbers = ops.cast(ops.take(self.place, turns % len(_PLACES[0])), value.dtype)
                value = value - ops.stop_gradient(value) + numbers
            self.owners.append(key)
            return self.tap(value)

        return _each_float(replaced, outputs)

    def call_operation(
        self,
        operation: keras.Operation,
        call: Call,
        args: tuple[TensorTree, ...],
        kwargs: TensorTree,
    ) -> TensorTree:
        """Calls an operation between layers: one operand in float32 promotes the others."""
        outputs = call(*args, **kwargs)
        # One that only operations read gets its gradients from these.
        readers = [node.operation for node in operation._outbound_nodes]
        is_last = not readers or any(isinstance(one, keras.layers.Layer) for one in readers)
        if is_last and self._is_wide(operation):
            self._arrives(outputs)
        return outputs

    def _is_wide(self, operation: keras.Operation) -> bool:
        pending, seen = [operation], {id(operation)}
        while pending:
            for node in pending.pop()._inbound_nodes:
                for tensor in node.input_tensors:
                    source = tensor._keras_history.operation
                    if id(source) in seen or not keras.backend.is_float_dtype(tensor.dtype):
                        continue
                    seen.add(id(source))
                    if not isinstance(source, keras.layers.Layer):
                        pending.append(source)
                    elif id(source) not in self.narrow and not is_graph(source):
                        return True
        return False

    def _ends_here(self, node: LayerNode) -> bool:
        """Whether no gradient passes: another layer that gets too large ones is found by itself."""
        if id(node.layer) in self.narrow:
            return True
        has_kernel = any(
            len(one.shape) > 1 for part in node.unit() for one in part.layer._trainable_variables
        )
        return has_kernel and (is_builtin(node.layer) or id(node.layer) in self.found)

    def _arrives(self, values: TensorTree) -> None:
        """Lets gradients of changing sign arrive: equal ones cancel behind a difference."""
        for value in filter(_is_float, tree.flatten(values)):
            draw = np.random.default_rng(len(self.arriving))
            value = ops.cast(value, "float32")
            for signs in _along_axes(value, partial(draw.choice, (-1.0, 1.0))):
                value = value * signs.astype("float32")
            self.arriving.append(ops.sum(value))


def _along_axes(value: Tensor, numbers: Callable[[int], Tensor]) -> Iterator[np.ndarray]:
    """Numbers for each axis, which broadcast: for all numbers of a tensor they would be many."""
    rank = len(value.shape)
    for axis, size in enumerate(value.shape):
        yield numbers(size).reshape([size if one == axis else 1 for one in range(rank)])


# Takes the numbers that stand in every result; gives the gradient of each.
_Gradients = Callable[[np.ndarray], Sequence[Tensor]]


def _by_jax(run: _Run, inputs: tuple[TensorTree, TensorTree]) -> _Gradients:
    import jax

    taps: list[np.ndarray] = []

    def record(value: Tensor) -> Tensor:
        taps.append(np.zeros(value.shape, value.dtype))
        return value

    def shifted(added: list[Tensor], place: Tensor) -> Tensor:
        left = iter(added)
        run.tap = lambda value: value + next(left)
        return run.objective(inputs, place)

    run.tap = record
    jax.eval_shape(run.objective, inputs, _PLACES[0])
    return partial(jax.jit(jax.grad(shifted)), taps)


def _by_tensorflow(run: _Run, inputs: tuple[TensorTree, TensorTree]) -> _Gradients:
    import tensorflow as tf

    watched: list[Tensor] = []

    def gradients(place: Tensor) -> list[Tensor]:
        with tf.GradientTape() as tape:

            def watch(value: Tensor) -> Tensor:
                value = tf.identity(value)
                tape.watch(value)
                watched.append(value)
                return value

            run.tap = watch
            objective = run.objective(inputs, place)
        found = tape.gradient(objective, watched, unconnected_gradients="zero")
        return [tf.convert_to_tensor(one) for one in found]

    traced = tf.compat.v1.wrap_function(gradients, [tf.TensorSpec(_PLACES[0].shape)])
    # A pruned graph leaves out what the user's code assigns to variables that are not Keras's.
    pruned = traced.prune(traced.inputs[:1], traced.outputs)
    if any("Assign" in one.type for one in pruned.graph.get_operations()):
        return lambda place: [0.0] * len(run.owners)
    return lambda place: pruned(tf.constant(place))


def _is_float(value: Tensor) -> bool:
    if not ops.is_tensor(value) or isinstance(value, keras.Variable):
        return False
    return keras.backend.is_float_dtype(keras.backend.standardize_dtype(value.dtype))


def _each_float(function: Callable[[Tensor], Tensor], values: TensorTree) -> TensorTree:
    return tree.map_structure(lambda one: function(one) if _is_float(one) else one, values)


@contextmanager
def _watched(run: _Run) -> Iterator[None]:
    """Lets a run call every operation, and every layer that no other one made for itself."""
    nodes = [node for node in run.entry.within() if node.head is None and node is not run.entry]
    callers: dict[keras.Operation, Callable[..., TensorTree]] = {
        node.layer: partial(run.call_layer, node, node.layer.call) for node in nodes
    }
    for node in run.entry.within():
        for one in operations_of(node.layer):
            callers.setdefault(one, partial(run.call_operation, one, one.call))
    before = {one: vars(one).get("call") for one in callers}
    try:
        for one, caller in callers.items():
            object.__setattr__(one, "call", _spread(caller))
        yield
    finally:
        for one, own in before.items():
            if own is None:
                object.__delattr__(one, "call")
            else:
                object.__setattr__(one, "call", own)


def _spread(caller: Callable[..., TensorTree]) -> Call:
    return lambda *args, **kwargs: caller(args, kwargs)

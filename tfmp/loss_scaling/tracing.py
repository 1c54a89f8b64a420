"""Helpers for code that runs eagerly, in `tf.function` and in `jax.jit`."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import keras
from keras import backend, ops

from tfmp.shared.backend import Tensor

Function = TypeVar("Function", bound=Callable[..., object])
Result = TypeVar("Result")


def without_autograph(function: Function) -> Function:
    """Keeps a user's `tf.function` from rewriting this code: it is written for tracing."""
    if backend.backend() != "tensorflow":
        return function
    import tensorflow as tf

    return tf.autograph.experimental.do_not_convert(function)


def rarely_run(function: Function) -> Function:
    """Makes a function cheap where it is not called: in the branch of a condition, mostly untaken.

    TensorFlow visits every operation of an untaken branch on every step. A function that is not
    inlined is one operation.
    """
    if backend.backend() != "tensorflow":
        return function
    import tensorflow as tf

    if tf.executing_eagerly():
        return function
    return tf.function(function, autograph=False, experimental_attributes={"_noinline": True})


# A product with ones needs a copy of the values: larger ones are summed without.
_SMALL = 2**16


def rarely_summed(values: Tensor, axes: int) -> Tensor:
    """Sums of float32 values over the last `axes` axes, for a branch that is mostly not taken.

    On a CPU, XLA prepares memory for each reduction on every step, whatever branch is taken, but
    none for a matrix product. It makes a reduction of a product with a vector, hence two columns.
    A GPU may read the values of a product in TF32, with 11 significant bits.
    """
    shape = tuple(values.shape)[len(values.shape) - axes :]
    if not is_small(shape):
        return ops.sum(values, axis=tuple(range(-axes, 0)))
    return ops.tensordot(values, ops.ones((*shape, 2), values.dtype), axes=axes)[..., 0]


def rarely_all(flags: Tensor) -> Tensor:
    """`ops.all`, for such a branch."""
    return rarely_summed(ops.cast(ops.logical_not(flags), "float32"), len(flags.shape)) == 0


def is_small(shape: tuple[int | None, ...]) -> bool:
    """Whether a copy of an array of this shape costs no memory to speak of."""
    sizes = [size for size in shape if size is not None]
    return len(sizes) == len(shape) and math.prod(sizes) <= _SMALL


def read(variable: keras.Variable) -> Tensor:
    """The variable's value now; Keras's convert_to_tensor would return a TensorFlow variable."""
    return ops.stop_gradient(variable)


# Operations that take a variable's handle and leave its value alone.
_READS = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape")


def maybe_assigned(variables: Sequence[keras.Variable]) -> list[keras.Variable]:
    """Those of the variables that the TensorFlow graph being traced may assign values to.

    Where nothing is being traced these are all. Call it on a replica.
    """
    import tensorflow as tf

    if tf.executing_eagerly():
        return list(variables)
    graph = tf.compat.v1.get_default_graph()
    inside = {id(outer): inner for outer, inner in getattr(graph, "captures", ())}
    changed = {
        id(operand)
        for op in graph.get_operations()
        if op.type not in _READS
        for operand in op.inputs
    }
    handles = [getattr(variable._value, "handle", None) for variable in variables]
    pairs = zip(variables, handles, strict=True)
    return [variable for variable, handle in pairs if id(inside.get(id(handle), handle)) in changed]


def assigned_from(source: keras.Variable, variables: Iterable[keras.Variable]) -> list[str]:
    """Paths of the variables that the graph being traced assigns values to that depend on another.

    Values that the graph looks at for NaN or infinities are left out, and so is all of it where
    nothing is being traced, and on JAX, whose steps assign nothing.
    """
    if backend.backend() != "tensorflow":
        return []
    import tensorflow as tf

    # Across replicas variables have no handles, and `apply` refuses to run.
    if tf.executing_eagerly() or tf.distribute.get_replica_context() is None:
        return []
    graph = tf.compat.v1.get_default_graph()
    inside = {id(outer): inner for outer, inner in getattr(graph, "captures", ())}
    handles = {id(inside.get(id(getattr(v._value, "handle", None)))): v for v in variables}
    scale = inside.get(id(getattr(source._value, "handle", None)))
    if scale is None:
        return []
    found = [
        handles[id(op.inputs[0])].path
        for op in graph.get_operations()
        if op.type.startswith("Assign") and id(op.inputs[0]) in handles
        if _depends_on(scale, op.inputs[1])
    ]
    return list(dict.fromkeys(found))


def _depends_on(source: Tensor, result: Tensor) -> bool:
    pending, seen, depends = [result], {id(result)}, False
    while pending:
        tensor = pending.pop()
        if tensor.op.type in ("IsFinite", "IsNan", "IsInf"):
            return False
        depends = depends or tensor is source
        new = [operand for operand in tensor.op.inputs if id(operand) not in seen]
        seen.update(map(id, new))
        pending += new
    return depends


def replica_index() -> int:
    """A number of the replica whose code runs; 0 without replicas, or where one trace is for all.

    `MirroredStrategy` traces a step once for each replica, and switches between them wherever they
    meet.
    """
    if backend.backend() != "tensorflow":
        return 0
    import tensorflow as tf

    index = getattr(tf.distribute.get_replica_context(), "_replica_id_in_sync_group", 0)
    return index if isinstance(index, int) else 0


def branch(
    predicate: Tensor, if_true: Callable[[], Result], if_false: Callable[[], Result]
) -> Result:
    """Like `ops.cond`, but an untraced JAX step picks its branch in Python.

    Outside `jax.jit`, `lax.cond` would compile both branches anew on every step.
    """
    if backend.backend() == "jax":
        import jax

        if not isinstance(predicate, jax.core.Tracer):
            return if_true() if predicate else if_false()
    return ops.cond(predicate, if_true, if_false)

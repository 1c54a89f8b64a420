"""Finds the first operation that turns finite numbers into non-finite ones, on either backend."""

import itertools
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import keras
import numpy as np
from keras import tree

from tfmp.shared.backend import Tensor, TensorTree
from tfmp.shared.packages import is_in, user_line

if TYPE_CHECKING:
    import tensorflow as tf
    from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var

# JAX primitives whose equation is a call of one jaxpr with the same arguments.
_WRAPPERS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call")


@dataclass(frozen=True)
class FirstOp:
    """An operation whose result is infinite and its inputs finite, or NaN and none of these was.

    Attributes:
        name: TensorFlow op type or JAX primitive, such as "Log" or "log".
        dtype: dtype of the result that is not finite.
        where: "file.py:12" in the user's code that called it; None inside a library.
        masks: it multiplies flags by a constant that is infinite in its dtype, such as -1e9.
    """

    name: str
    dtype: str
    where: str | None = None
    masks: bool = False

    def __str__(self) -> str:
        return f"{self.name} in {self.dtype}" + (f" at {self.where}" if self.where else "")


def first_nonfinite_op(function: Callable[..., TensorTree], *args: TensorTree) -> FirstOp | None:
    """Runs a function, op by op, until an op makes a non-finite number of finite ones.

    Args:
        function: takes backend tensors.
        args: concrete tensors, or nested structures of them.

    Returns:
        The operation; without one, the first that hands an infinite constant on, as masks do. None
        if there is none, or if it is part of a compiled function.
    """
    first = _first_in_jax if keras.backend.backend() == "jax" else _first_in_tensorflow
    return first(_is_bad, function, args) or first(_hands_constant_on, function, args)


# Gets the floating-point inputs and outputs of an operation; whether it is the one.
_Sought = Callable[[list[np.ndarray], list[np.ndarray]], bool]


def _hands_constant_on(inputs: list[np.ndarray], outputs: list[np.ndarray]) -> bool:
    return any(map(_is_infinite_constant, inputs)) and any(np.isinf(one).any() for one in outputs)


def _is_infinite_constant(values: np.ndarray) -> bool:
    return values.size == 1 and bool(np.isinf(values).all())


def _masks(inputs: list[np.ndarray]) -> bool:
    others = [values for values in inputs if not _is_infinite_constant(values)]
    flags = [bool(np.isin(values, (0, 1)).all()) for values in others]
    return 0 < len(others) < len(inputs) and all(flags)


def _is_bad(inputs: list[np.ndarray], outputs: list[np.ndarray]) -> bool:
    # An op without floating-point inputs made its infinity on purpose, as a mask or a start value.
    if not inputs:
        return False
    for is_odd in (np.isnan, lambda values: ~np.isfinite(values)):
        if any(is_odd(value).any() for value in outputs):
            return not any(is_odd(value).any() for value in inputs)
    return False


def _float_arrays(tensors: TensorTree) -> list[np.ndarray]:
    arrays = []
    for tensor in tree.flatten(tensors):
        dtype = str(getattr(getattr(tensor, "dtype", None), "name", ""))
        if dtype.startswith(("float", "bfloat")):
            arrays.append(np.asarray(tensor).astype(np.float64))
    return arrays


def _first_in_tensorflow(
    sought: _Sought, function: Callable[..., TensorTree], args: tuple[TensorTree, ...]
) -> FirstOp | None:
    with _watched_tensorflow_ops(sought) as found:
        function(*args)
    return found[0] if found else None


@contextmanager
def _watched_tensorflow_ops(sought: _Sought) -> Iterator[list[FirstOp]]:
    # The hook that tf.debugging is made of. Its own enable_check_numerics would stop at the first
    # non-finite number of any kind, wanted ones included.
    from tensorflow.python.framework import op_callbacks

    found: list[FirstOp] = []

    def look(
        op_type: str | bytes,
        inputs: "tuple[tf.Tensor, ...]",
        attrs: object,
        outputs: "tuple[tf.Tensor, ...]",
        op_name: str | None = None,
        graph: "tf.Graph | None" = None,
    ) -> None:
        if found or graph is not None:
            return
        results = _float_arrays(outputs)
        if results and sought(given := _float_arrays(inputs), results):
            dtype = next(t.dtype.name for t in outputs if "float" in t.dtype.name)
            found.append(FirstOp(_name_of(op_type), dtype, _user_frame(), _masks(given)))

    op_callbacks.add_op_callback(look)
    try:
        yield found
    finally:
        op_callbacks.remove_op_callback(look)


def _name_of(op_type: str | bytes) -> str:
    """An operation's name; TensorFlow calls functions, as of Keras's convolutions, by bytes."""
    name = op_type.decode() if isinstance(op_type, bytes) else op_type
    return re.sub(r"^__inference_(\w+)_\d+$", r"\1", name)


def _user_frame() -> str | None:
    frames = ((frame.filename, frame.lineno) for frame in reversed(traceback.extract_stack()))
    return user_line(itertools.dropwhile(lambda frame: is_in("tfmp", frame[0]), frames)) or None


def _first_in_jax(
    sought: _Sought, function: Callable[..., TensorTree], args: tuple[TensorTree, ...]
) -> FirstOp | None:
    import jax

    closed = jax.make_jaxpr(function)(*args)
    return _first_in_jaxpr(sought, closed.jaxpr, closed.consts, jax.tree.leaves(args))


def _first_in_jaxpr(
    sought: _Sought, jaxpr: "Jaxpr", consts: Sequence[Tensor], args: Sequence[Tensor]
) -> FirstOp | None:
    """Interprets a jaxpr equation by equation; enters equations that only wrap another jaxpr."""
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))

    def read(atom: "Var | Literal") -> Tensor:
        return atom.val if hasattr(atom, "val") else values[atom]

    for equation in jaxpr.eqns:
        inputs = [read(atom) for atom in equation.invars]
        bound = equation.primitive.get_bind_params(equation.params)
        # Earlier versions of JAX give a pair.
        functions, params = bound if isinstance(bound, tuple) else ((), bound)
        results = equation.primitive.bind(*functions, *inputs, **params)
        results = results if equation.primitive.multiple_results else [results]
        floats = _float_arrays(results)
        if floats and sought(given := _float_arrays(inputs), floats):
            name, dtype = equation.primitive.name, str(results[0].dtype)
            own = FirstOp(name, dtype, _where(equation), _masks(given))
            return _inside(sought, equation, inputs) or own
        values.update(zip(equation.outvars, results, strict=True))
    return None


def _inside(sought: _Sought, equation: "JaxprEqn", inputs: list[Tensor]) -> FirstOp | None:
    if equation.primitive.name not in _WRAPPERS:
        return None
    wrapped = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
    if not hasattr(wrapped, "consts"):
        return None
    return _first_in_jaxpr(sought, wrapped.jaxpr, wrapped.consts, inputs)


def _where(equation: "JaxprEqn") -> str | None:
    traceback_of = equation.source_info.traceback
    frames = traceback_of.frames if traceback_of is not None else ()
    return user_line((frame.file_name, frame.line_num) for frame in frames) or None

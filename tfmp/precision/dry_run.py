"""Runs a model symbolically: what fails in a dtype, which layers make the outputs, and the losses.

Nothing is computed and no variable changes: the model is traced, as `fit` would trace it. Layers
are marked as they run, so that the traced graph can be walked back from the outputs to them.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import keras
from keras import layers, tree

from tfmp.precision.dtype_policies import NARROW_DTYPES, policy_named
from tfmp.precision.graph_walk import Inputs, Marks, producers, trace
from tfmp.precision.layer_tree import LayerNode, describe, is_builtin

# What layers are switched to float32 from.
_SWITCHED = (*NARROW_DTYPES, "float64")

# How many layers inside a failing container are switched one by one before all of them are.
_SINGLE_ATTEMPTS = 4

# A reason in a table is one line.
_LONGEST_MESSAGE = 90


class DryRunError(RuntimeError):
    """The model could not be traced at all, whatever its dtypes."""


@dataclass(frozen=True)
class DryRun:
    """What a dry run found, by `id(layer)`.

    Attributes:
        inputs: what the model was traced with.
        outputs: layers that compute the model's outputs; a container is among them where its own
            code has operations behind its layers.
        failed: layers that raised in the dtype tried and ran in float32, and what they raised.
        unsafe_losses: layers whose `add_loss` got a tensor that was not float32.
    """

    inputs: Inputs
    outputs: frozenset[int]
    failed: Mapping[int, str] = field(default_factory=dict)
    unsafe_losses: frozenset[int] = frozenset()


def needs_dry_run(tree: LayerNode) -> bool:
    """Whether a model has code that is not Keras's own, of which only a run can tell anything."""
    return any(is_custom(node.layer) for node in tree.within())


def dry_run(
    root: LayerNode,
    policies: Mapping[int, str | None] | None = None,
    inputs: Inputs | None = None,
) -> DryRun:
    """Traces a model in training mode.

    Args:
        root: what `structure.walk` gave for the model.
        policies: Keras policies to try, by `id(layer)`; layers that fail under theirs are switched
            to float32, each with what it contains if need be, and the run goes on. Without them
            the layers run as they are, and the first failure ends the run.
        inputs: what an earlier run was traced with.

    Returns:
        What was found. Every layer has its own policy again.

    Raises:
        DryRunError: the model cannot be traced: what its `call` takes is unknown, or it fails for
            reasons that are not its dtypes.
    """
    last: Exception | None = None
    for candidate in [inputs] if inputs else _possible_inputs(root.layer):
        run = _Run(root, may_switch=policies is not None)
        try:
            with _policies(root, policies or {}), _watched_calls(root, run), losses_kept(root):
                graph = trace(run.call_model, candidate, run.marks)
        except Exception as error:
            last = error
            continue
        outputs = producers(graph, root)
        return DryRun(candidate, outputs, run.failed, frozenset(run.unsafe_losses))
    raise DryRunError(_one_line(last) if last else "the shapes of its inputs are unknown")


class _Run:
    """The state of one dry run while the model is being traced."""

    def __init__(self, root: LayerNode, may_switch: bool) -> None:
        self.root = root
        self.nodes = {id(node.layer): node for node in root.within()}
        self.may_switch = may_switch
        self.marks = Marks()
        self.failed: dict[int, str] = {}
        self.called: list[LayerNode] = []
        self.attempts: dict[int, int] = {}
        self.unsafe_losses: set[int] = set()

    def call_model(self, keywords: Mapping[str, Any], positional: list[Any]) -> Any:
        model = self.root.layer
        kwargs = dict(keywords)
        if model._call_has_training_arg:
            kwargs["training"] = True
        with keras.StatelessScope(collect_losses=True):
            outputs = model(*positional, **kwargs)
            self._note_unsafe_losses()
        return outputs

    def _note_unsafe_losses(self) -> None:
        for key, node in self.nodes.items():
            for loss in node.layer._get_own_losses():
                if keras.backend.standardize_dtype(loss.dtype) in _SWITCHED:
                    self.unsafe_losses.add(key)

    def call_layer(self, node: LayerNode, call: Callable, args: Any, kwargs: Any) -> Any:
        """Calls a layer; one that fails in its dtype is called again in float32."""
        try:
            outputs = call(*args, **kwargs)
        except Exception as error:
            if not (self.may_switch and _answers_for_itself(node)):
                raise
            if not self._widen(node, _one_line(error)):
                raise
            return node.layer(*args, **kwargs)
        self.called.append(node)
        return self.marks.add(node.layer, outputs)

    def _widen(self, node: LayerNode, message: str) -> bool:
        """Switches a layer that failed to float32, or something in it where that is not enough.

        Inside a container the layer that returned last has likely made the tensor that did not
        fit, so these are tried one by one, from the last, before the whole container.
        """
        inside = set(map(id, node.within()))
        recent = [called for called in reversed(self.called) if id(called) in inside]
        if self.attempts.get(id(node), 0) >= _SINGLE_ATTEMPTS:
            candidates = [list(node.within())]
        else:
            candidates = [part.unit() for part in (node, *recent)] + [list(node.within())]
        self.attempts[id(node)] = self.attempts.get(id(node), 0) + 1
        for group in candidates:
            switchable = [part for part in group if part.layer.compute_dtype in _SWITCHED]
            for part in switchable:
                part.layer._dtype_policy = keras.DTypePolicy("float32")
                where = "" if part is node else f"in {describe(node.path)}: "
                self.failed.setdefault(id(part.layer), where + message)
            if switchable:
                return True
        return False


def is_custom(layer: layers.Layer) -> bool:
    """Whether a layer runs code that is not Keras's own."""
    if not is_builtin(layer) or isinstance(layer, layers.Lambda):
        return True
    activation = getattr(layer, "activation", None)
    return activation is not None and not _module_of(activation).startswith("keras")


def _module_of(function: Any) -> str:
    return getattr(function, "__module__", None) or type(function).__module__


def _answers_for_itself(node: LayerNode) -> bool:
    """Whether a failure inside the layer is its own code's doing."""
    if node.head is not None:
        return False
    return any(is_custom(part.layer) for part in node.unit())


@contextmanager
def _policies(root: LayerNode, policies: Mapping[int, str | None]) -> Iterator[None]:
    # The attribute behind the property: Keras's setter would write into a shared DTypePolicyMap.
    before = [(node.layer, node.layer._dtype_policy) for node in root.within()]
    try:
        for layer, _ in before:
            name = policies.get(id(layer))
            if name:
                layer._dtype_policy = policy_named(name)
        yield
    finally:
        for layer, policy in before:
            layer._dtype_policy = policy


@contextmanager
def _watched_calls(root: LayerNode, run: _Run) -> Iterator[None]:
    """Puts a wrapper before every layer's `call` on the instance, where Keras looks it up."""
    nodes = list(root.within())
    before = [vars(node.layer).get("call") for node in nodes]
    try:
        for node in nodes:
            object.__setattr__(node.layer, "call", _watcher(node, run))
        yield
    finally:
        for node, own in zip(nodes, before, strict=True):
            if own is None:
                object.__delattr__(node.layer, "call")
            else:
                object.__setattr__(node.layer, "call", own)


def _watcher(node: LayerNode, run: _Run) -> Callable[..., Any]:
    call = node.layer.call

    def watched(*args: Any, **kwargs: Any) -> Any:
        return run.call_layer(node, call, args, kwargs)

    return watched


@contextmanager
def losses_kept(root: LayerNode) -> Iterator[None]:
    """Restores what layers remember of their `add_loss` calls."""
    before = [(n.layer, list(n.layer._losses), set(n.layer._loss_ids)) for n in root.within()]
    try:
        yield
    finally:
        for layer, losses, ids in before:
            layer._losses[:] = losses
            layer._loss_ids.clear()
            layer._loss_ids.update(ids)


def _possible_inputs(model: keras.Model) -> Iterator[Inputs]:
    """What a model may be traced with, the likeliest first."""
    # Some code needs real sizes under JAX; 32 passes through most strides and poolings.
    sizes = (None, 32) if keras.backend.backend() == "jax" else (None,)
    for keywords, positional in _possible_arguments(model):
        for size in sizes:
            yield Inputs(keywords, positional, size)


def _possible_arguments(model: keras.Model) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    try:
        yield {}, [model.input]
        return
    except (AttributeError, ValueError):
        pass
    shapes = model._build_shapes_dict
    if not shapes:
        return
    # A subclassed model remembers the shapes it was built with, but not the dtypes.
    for dtype in ("float32", "int32"):
        make = partial(_any_batch, dtype=dtype)
        first, *others = [tree.map_shape_structure(make, shape) for shape in shapes.values()]
        names = [name.removesuffix("_shape") for name in shapes]
        yield dict(zip(names[1:], others, strict=True)), [first]


def _any_batch(shape: tuple[int | None, ...], dtype: str) -> keras.KerasTensor:
    return keras.KerasTensor((None, *shape[1:]), dtype)


def _one_line(error: Exception | None) -> str:
    """The part of an exception's text that tells most, short enough for a table."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "dtype" in line or "float" in line] or lines
    text = telling[0] if telling else type(error).__name__
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 3] + "..."

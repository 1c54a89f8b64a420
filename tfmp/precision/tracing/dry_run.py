"""Traces a model to see which layers fail in a dtype, make the outputs, or add losses.

Nothing is computed and no variable changes: the model is traced, as `fit` would trace it. Layers
are marked as they run, so that the traced graph can be walked back from the outputs to them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import product
from weakref import WeakKeyDictionary

import keras
from keras import layers, tree

from tfmp.precision import NARROW_DTYPES, policy_named
from tfmp.precision.layer_tree import LayerNode, describe, is_builtin, operations_of
from tfmp.precision.tracing.graph_walk import new_marks, producers, trace
from tfmp.precision.tracing.hazards import Fact
from tfmp.precision.tracing.own_states import StateWatch
from tfmp.precision.tracing.traced_graph import Graph, Inputs
from tfmp.shared.backend import Tensor, TensorTree
from tfmp.shared.wording import first_line

# Layers that compute in one of these may be switched to float32.
_SWITCHED = (*NARROW_DTYPES, "float64")

# Activations of Keras that have no 16-bit kernel on TensorFlow, or are infinite in FP16 from 11 on.
_WIDE_ACTIVATIONS = ("exponential", "sparsemax")

# How many layers inside a failing container are switched one by one before all of them are.
_SINGLE_ATTEMPTS = 4

# How many inputs may differ in their dtypes: one trace for every way to choose them.
_MIXED_INPUTS = 3

# By model, the inputs that `fit` has for it.
_FIRST_BATCHES: WeakKeyDictionary[keras.Model, TensorTree] = WeakKeyDictionary()

# A reason in a table is one line.
_LONGEST_MESSAGE = 90


class DryRunError(RuntimeError):
    """The model could not be traced, whatever its dtypes."""


@dataclass(frozen=True)
class DryRun:
    """The result of a dry run; layers are known by `id(layer)`.

    Attributes:
        inputs: the inputs that the model was traced with.
        outputs: layers that compute the model's outputs, or what a container's own code adds to
            the loss; a container is among them if its own code has operations behind its layers.
        failed: layers that raised an error in the dtype and ran in float32, with the error.
        unsafe_losses: layers whose `add_loss` got a tensor that was not float32.
        facts: constants, sums and products in the layers' own code.
        called: layers that ran.
        assigned: ids of the weights that the layers' own code assigns.
        states: layers that compute a weight's new value from its old one in 16 bits, with its name.
    """

    inputs: Inputs
    outputs: frozenset[int]
    failed: Mapping[int, str] = field(default_factory=dict)
    unsafe_losses: frozenset[int] = frozenset()
    facts: tuple[Fact, ...] = ()
    called: frozenset[int] = frozenset()
    assigned: frozenset[int] = frozenset()
    states: Mapping[int, str] = field(default_factory=dict)


def needs_dry_run(root: LayerNode) -> bool:
    """Whether a model has code that is not Keras's own, so that only a run can show its effect."""
    return any(is_custom(node.layer) for node in root.within())


def dry_run(
    root: LayerNode,
    policies: Mapping[int, str | None] | None = None,
    before: DryRun | None = None,
) -> DryRun:
    """Traces a model in training mode.

    Args:
        root: the model's tree of layers, from `layer_tree.walk`.
        policies: Keras policies to try, by `id(layer)`; layers that fail under their policy are
            switched to float32, if necessary with the layers that they contain, and the run goes
            on. Without policies the layers run as they are, and the first failure ends the run.
        before: an earlier run, whose inputs are taken again, and whose `assigned` are looked at.

    Returns:
        The result. Every layer has its own policy again.

    Raises:
        DryRunError: the model cannot be traced: the arguments of its `call` are unknown, or it
            fails for reasons that are not its dtypes.
    """
    last: Exception | None = None
    assigned = before.assigned if before else frozenset()
    for candidate in [before.inputs] if before else _possible_inputs(root.layer):
        run = _Run(root, policies is not None, assigned)
        try:
            _build_the_rest(root, candidate)
            with (
                policies_kept(root.within()),
                _watched_calls(root, run),
                losses_kept(root),
            ):
                _set_policies(root, policies or {})
                graph = trace(run.call_model, candidate, run.marks, root.layer.variables)
        except Exception as error:
            last = error
            continue
        states = run.states.rounded(graph)
        return DryRun(
            candidate,
            _seen_by_the_loss(graph, root, run),
            run.failed,
            frozenset(run.unsafe_losses),
            tuple(graph.facts),
            frozenset(id(node.layer) for node in run.called),
            frozenset(run.states.assigned),
            states,
        )
    raise DryRunError(_one_line(last) if last else "the shapes of its inputs are unknown")


def _build_the_rest(root: LayerNode, inputs: Inputs) -> None:
    """Makes the weights of layers in a model that calls itself built.

    Keras would make them within the trace, and on JAX their values would leak from it.
    """
    if not all(node.layer.built for node in root.within()):
        root.layer(*inputs.positional, **inputs.keywords)


def _seen_by_the_loss(graph: Graph, root: LayerNode, run: "_Run") -> frozenset[int]:
    """The layers that make outputs, and those that an output layer adds a loss of."""
    owners = [key for key, losses in run.endpoint_losses.items() for _ in losses]
    everything = graph.outputs
    split = len(everything) - len(owners)
    graph.outputs = everything[:split]
    found = producers(graph, root)
    ends = found
    for key, loss in zip(owners, everything[split:], strict=True):
        if key in ends:
            graph.outputs = [loss]
            found |= producers(graph, root, through=key)
    return found


class _Run:
    """The state of one dry run while the model is being traced."""

    def __init__(self, root: LayerNode, may_switch: bool, assigned: frozenset[int]) -> None:
        self.root = root
        self.nodes = {id(node.layer): node for node in root.within()}
        self.may_switch = may_switch
        self.marks = new_marks()
        self.states = StateWatch(self.marks, assigned)
        self.failed: dict[int, str] = {}
        self.called: list[LayerNode] = []
        self.attempts: dict[int, int] = {}
        self.unsafe_losses: set[int] = set()
        # By id of the layer, for layers without layers in them.
        self.endpoint_losses: dict[int, list[Tensor]] = {}

    def call_model(
        self, keywords: Mapping[str, TensorTree], positional: list[TensorTree]
    ) -> TensorTree:
        """Calls the model in training mode; returns outputs, losses that it adds, and states."""
        model = self.root.layer
        kwargs = dict(keywords)
        if model._call_has_training_arg:
            kwargs["training"] = True
        with self.states:
            outputs = model(*positional, **kwargs)
            added = self._added_losses()
        return outputs, added, list(self.endpoint_losses.values()), self.states.new_values()

    def _added_losses(self) -> list[Tensor]:
        """The losses that containers add in their own code; the loss sees their layers' results."""
        added = []
        for key, node in self.nodes.items():
            losses = node.layer._get_own_losses()
            if any(keras.backend.standardize_dtype(loss.dtype) in _SWITCHED for loss in losses):
                self.unsafe_losses.add(key)
            if any(child.head is None for child in node.children):
                added += losses
            elif losses:
                self.endpoint_losses[key] = losses
        return added

    def call_layer(
        self,
        node: LayerNode,
        call: Callable[..., TensorTree],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> TensorTree:
        """Calls a layer; one that fails in its dtype is called again in float32."""
        (args, kwargs), begin = self.marks.begin(node.layer, (args, kwargs))
        try:
            with self.states.running(node.layer):
                outputs = call(*args, **kwargs)
        except Exception as error:
            self.marks.end(node.layer, begin)
            if not (self.may_switch and _answers_for_itself(node)):
                raise
            if not self._widen(node, _one_line(error)):
                raise
            return node.layer(*args, **kwargs)
        self.called.append(node)
        self.marks.end(node.layer, begin)
        return self.marks.add(node.layer, outputs)

    def _widen(self, node: LayerNode, message: str) -> bool:
        """Switches a layer that failed to float32, or a layer inside it if that is not enough.

        Inside a container the layer that returned last has likely made the tensor that did not
        fit. Therefore its layers are tried one by one, the last one first, before the container.
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
    """Whether a layer runs code that is not Keras's own, or that FP16 may not hold."""
    if not is_builtin(layer) or isinstance(layer, layers.Lambda):
        return True
    activation = getattr(layer, "activation", None)
    if activation is None:
        return False
    module, name = _module_of(activation), getattr(activation, "__name__", "")
    return not module.startswith("keras") or ".ops" in module or name in _WIDE_ACTIVATIONS


def _module_of(function: object) -> str:
    return getattr(function, "__module__", None) or type(function).__module__


def _answers_for_itself(node: LayerNode) -> bool:
    """Whether a failure inside the layer is its own code's doing."""
    if node.head is not None:
        return False
    return any(is_custom(part.layer) for part in node.unit())


@contextmanager
def policies_kept(nodes: Iterable[LayerNode]) -> Iterator[None]:
    """Restores the dtype policies of layers, which the block may set."""
    # The attribute behind the property: Keras's setter would write into a shared DTypePolicyMap.
    before = [(node.layer, node.layer._dtype_policy) for node in nodes]
    try:
        yield
    finally:
        for layer, policy in before:
            layer._dtype_policy = policy


def _set_policies(root: LayerNode, policies: Mapping[int, str | None]) -> None:
    for node in root.within():
        name = policies.get(id(node.layer))
        if name:
            node.layer._dtype_policy = policy_named(name)


@contextmanager
def all_in_float32(root: LayerNode) -> Iterator[None]:
    """Lets a model compute in float32, and forget the losses that it adds."""
    switched = [n for n in root.within() if n.layer.compute_dtype in _SWITCHED]
    with policies_kept(root.within()), losses_kept(root):
        _set_policies(root, {id(node.layer): "float32" for node in switched})
        yield


@contextmanager
def _watched_calls(root: LayerNode, run: _Run) -> Iterator[None]:
    """Puts a wrapper before every layer's `call` on the instance, where Keras looks it up."""
    watchers = [(node.layer, _watcher(node, run)) for node in root.within()]
    for node in root.within():
        watchers += [(one, _operation_watcher(one, run)) for one in operations_of(node.layer)]
    before = [vars(one).get("call") for one, _ in watchers]
    try:
        for one, watcher in watchers:
            object.__setattr__(one, "call", watcher)
        yield
    finally:
        for (one, _), own in zip(watchers, before, strict=True):
            if own is None:
                object.__delattr__(one, "call")
            else:
                object.__setattr__(one, "call", own)


def _watcher(node: LayerNode, run: _Run) -> Callable[..., TensorTree]:
    call = node.layer.call

    def watched(*args: object, **kwargs: object) -> TensorTree:
        return run.call_layer(node, call, args, kwargs)

    return watched


def _operation_watcher(operation: keras.Operation, run: _Run) -> Callable[..., TensorTree]:
    call = operation.call

    def watched(*args: object, **kwargs: object) -> TensorTree:
        (args, kwargs), begin = run.marks.begin(operation, (args, kwargs))
        outputs = call(*args, **kwargs)
        run.marks.end(operation, begin)
        return run.marks.add(operation, outputs)

    return watched


@contextmanager
def losses_kept(root: LayerNode) -> Iterator[None]:
    """Restores the losses that layers remember from their `add_loss` calls."""
    before = [(n.layer, list(n.layer._losses), set(n.layer._loss_ids)) for n in root.within()]
    try:
        yield
    finally:
        for layer, losses, ids in before:
            layer._losses[:] = losses
            layer._loss_ids.clear()
            layer._loss_ids.update(ids)


def _possible_inputs(model: keras.Model) -> Iterator[Inputs]:
    """Inputs that a model may be traced with, the likeliest first."""
    # Some code needs real sizes; 32 passes through most strides and poolings.
    for keywords, positional in _possible_arguments(model):
        for size in (None, 32):
            yield Inputs(keywords, positional, size)


def _possible_arguments(
    model: keras.Model,
) -> Iterator[tuple[dict[str, TensorTree], list[TensorTree]]]:
    try:
        yield {}, [model.input]
        return
    except (AttributeError, ValueError):
        pass
    if model in _FIRST_BATCHES:
        yield from (({}, [batch]) for batch in _sizes_of(_FIRST_BATCHES[model]))
    shapes = model._build_shapes_dict
    if not shapes:
        return
    names = [name.removesuffix("_shape") for name in shapes]
    of_float32 = [tree.map_shape_structure(_float32, shape) for shape in shapes.values()]
    # A subclassed model remembers the shapes it was built with, but not the dtypes.
    count = sum(spec is not None for spec in tree.flatten(of_float32))
    for dtypes in _possible_dtypes(count):
        for first, *others in _sizes_of(_with_dtypes(of_float32, dtypes)):
            yield dict(zip(names[1:], others, strict=True)), [first]


def _float32(shape: tuple[int | None, ...] | None) -> keras.KerasTensor | None:
    return None if shape is None else keras.KerasTensor(shape, "float32")


def _with_dtypes(specs: TensorTree, dtypes: Iterable[str]) -> TensorTree:
    left = iter(dtypes)
    return _of_each(lambda spec: (spec.shape, next(left)), specs)


def _possible_dtypes(count: int) -> Iterator[tuple[str, ...]]:
    """Dtypes that a model's inputs may have: float32 first, whole numbers where those fail."""
    kinds = ("float32", "int32")
    if count <= _MIXED_INPUTS:
        return product(kinds, repeat=count)
    return ((kind,) * count for kind in kinds)


def _sizes_of(specs: TensorTree) -> Iterator[TensorTree]:
    """Inputs of any batch size; then of their own, as nodes and edges of a graph need them."""
    yield _of_each(lambda spec: ((None, *spec.shape[1:]), spec.dtype), specs)
    if any(
        spec is not None and spec.shape[:1] not in ((), (None,)) for spec in tree.flatten(specs)
    ):
        yield specs


def _of_each(
    described: Callable[[Tensor], tuple[tuple[int | None, ...], str]], values: TensorTree
) -> TensorTree:
    """Symbolic tensors of these shapes and dtypes; None stays where there is nothing."""
    return tree.map_structure(
        lambda value: None if value is None else keras.KerasTensor(*described(value)), values
    )


def remember_first_batch(model: keras.Model, inputs: TensorTree) -> None:
    """Notes the shapes and dtypes that a model is called on, if it cannot tell them itself."""
    with suppress(AttributeError, TypeError, ValueError):  # ragged ones, for example
        _FIRST_BATCHES[model] = _of_each(
            lambda value: (tuple(value.shape), keras.backend.standardize_dtype(value.dtype)), inputs
        )


def _one_line(error: Exception) -> str:
    """The most telling line of an exception's text, short enough for a table."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "dtype" in line or "float" in line]
    text = telling[0] if telling else first_line(error)
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 3] + "..."

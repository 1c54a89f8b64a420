"""Keras on TensorFlow: graphs, variables in place, replicas."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import reduce
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from keras import ops, tree

from tfmp.shared.backend.interface import (
    Backend,
    DeviceFacts,
    Function,
    Look,
    OnTensors,
    Optimizer,
    Tensor,
    TensorTree,
    Variable,
)
from tfmp.shared.framework_start import tensorflow_uses_onednn

# Operations that take a variable's handle and leave its value alone.
_READS = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape")


class TensorFlow(Backend):
    """Keras on TensorFlow."""

    name, title = "tensorflow", "TensorFlow"
    rewrites_graphs = softmax_is_narrow = True

    def without_autograph(self, function: Function) -> Function:
        return tf.autograph.experimental.do_not_convert(function)

    def rarely_run(self, function: Function) -> Function:
        # TensorFlow visits every operation of an untaken branch on every step. A function that is
        # not inlined is one operation.
        if tf.executing_eagerly():
            return function
        return tf.function(function, autograph=False, experimental_attributes={"_noinline": True})

    def is_concrete(self, tensor: Tensor) -> bool:
        return hasattr(tensor, "numpy")

    def is_dense(self, value: object) -> bool:
        return isinstance(value, tf.Tensor)

    def trace(
        self, function: Callable[..., object], likes: Sequence[tuple[tuple[int, ...], str]]
    ) -> None:
        specs = [tf.TensorSpec(*like) for like in likes]
        tf.function(function, autograph=False).get_concrete_function(*specs)

    def trace_step(self, model: Any, batch: TensorTree) -> None:
        run = tf.function(model.distribute_strategy.run, autograph=False)
        run.get_concrete_function(model.train_step, (batch,))

    def compiled(self, function: Callable[..., TensorTree], jit: bool) -> Callable[..., TensorTree]:
        return tf.function(function, jit_compile=jit, autograph=False, reduce_retracing=True)

    def program(self, function: Callable[..., TensorTree], arguments: TensorTree) -> bytes:
        # XLA's program shows the work of a model that runs without XLA, too.
        compiled = tf.function(function, jit_compile=True, autograph=False)
        return compiled.experimental_get_compiler_ir(*arguments)(stage="hlo_serialized")

    # --- gradients ---

    def pulled_back(
        self, function: OnTensors, sources: list[Tensor], arrive: OnTensors
    ) -> tuple[list[Tensor], list[Tensor]]:
        with tf.GradientTape() as tape:
            tape.watch(sources)
            results = function(sources)
        if not results:
            return [], [tf.zeros_like(one) for one in sources]
        none = tf.UnconnectedGradients.ZERO
        slopes = tape.gradient(results, sources, arrive(results), unconnected_gradients=none)
        return results, [tf.convert_to_tensor(one) for one in slopes]

    def differentiated(self, step: Callable[[], object]) -> list[Tensor]:
        taken, losses = tf.GradientTape.gradient, []

        def gradient(tape: Any, target: Tensor, sources: Any, *args: Any, **kwargs: Any) -> Any:
            if not any(isinstance(one, keras.Variable) for one in tree.flatten(sources)):
                return taken(tape, target, sources, *args, **kwargs)  # as of a gradient penalty
            losses.extend(tree.flatten(target))
            return tree.map_structure(lambda one: ops.zeros(one.shape), sources)

        tf.GradientTape.gradient = gradient
        try:
            step()
        finally:
            tf.GradientTape.gradient = taken
        return losses

    def with_rows(self, gradient: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
        if isinstance(gradient, tf.IndexedSlices):
            rows = change(gradient.values)
            return tf.IndexedSlices(rows, gradient.indices, gradient.dense_shape)
        return change(gradient)

    def stored(self, tensor: Tensor) -> Tensor:
        if isinstance(tensor, tf.RaggedTensor):
            return tensor.flat_values
        is_sparse = isinstance(tensor, tf.SparseTensor | tf.IndexedSlices)
        return tensor.values if is_sparse else tensor

    def stored_row(self, tensor: Tensor, place: int) -> int:
        if isinstance(tensor, tf.RaggedTensor) and tensor.ragged_rank == 1:
            return int(tensor.value_rowids()[place])
        if isinstance(tensor, tf.SparseTensor):
            return int(tensor.indices[place, 0])
        return int(tensor.indices[place]) if isinstance(tensor, tf.IndexedSlices) else place

    def operations(
        self, function: Callable[..., TensorTree], arguments: tuple[TensorTree, ...], look: Look
    ) -> None:
        # The hook that tf.debugging is made of. Its own enable_check_numerics would stop at the
        # first non-finite number of any kind, wanted ones included.
        from tensorflow.python.framework import op_callbacks

        ended = False

        def called(
            op_type: str | bytes,
            inputs: tuple[tf.Tensor, ...],
            attrs: object,
            outputs: tuple[tf.Tensor, ...],
            op_name: str | None = None,
            graph: tf.Graph | None = None,
        ) -> None:
            nonlocal ended
            if not ended and graph is None:
                ended = look(_name_of(op_type), inputs, outputs, self.user_frame)

        op_callbacks.add_op_callback(called)
        try:
            function(*arguments)
        finally:
            op_callbacks.remove_op_callback(called)

    # --- variables ---

    def _initialize(self, variable: Variable, value: Tensor) -> None:
        before = variable._value
        with tf.init_scope():
            variable._initialize(value)
        # Optimizers find a weight's place by it.
        variable._value._unique_id = before._unique_id

    def mirrored(self, variables: Sequence[Variable]) -> bool:
        return any(isinstance(one._value, tf.distribute.DistributedValues) for one in variables)

    def creation_scope(self, optimizer: Optimizer) -> AbstractContextManager[object]:
        strategy = getattr(optimizer, "_distribution_strategy", None)
        if strategy is None or tf.distribute.has_strategy():
            return nullcontext()
        with strategy.scope():
            is_default = not tf.distribute.has_strategy()
        return nullcontext() if is_default else strategy.scope()

    def maybe_assigned(self, variables: Sequence[Variable]) -> list[Variable]:
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
        return [
            variable for variable, handle in pairs if id(inside.get(id(handle), handle)) in changed
        ]

    # --- replicas ---

    def replica_index(self) -> int:
        # `MirroredStrategy` traces a step once for each replica, and switches between them wherever
        # they meet.
        index = getattr(tf.distribute.get_replica_context(), "_replica_id_in_sync_group", 0)
        return index if isinstance(index, int) else 0

    def replicas(self) -> int:
        replica = tf.distribute.get_replica_context()
        if replica is None:
            raise ValueError(
                "LossScaleOptimizer.apply expects to run on one replica, received a call from the "
                "cross-replica context. Call it inside the function given to strategy.run()."
            )
        return int(replica.num_replicas_in_sync)

    def with_known_shapes(
        self, gradients: list[Tensor | None], variables: Sequence[Variable]
    ) -> list[Tensor | None]:
        # A `tf.py_function` forgets shapes.
        return [
            tf.ensure_shape(gradient, variable.shape)
            if isinstance(gradient, tf.Tensor) and not gradient.shape.is_fully_defined()
            else gradient
            for gradient, variable in zip(gradients, variables, strict=True)
        ]

    def on_replicas(
        self,
        finite: Tensor,
        gradients: list[Tensor | None],
        update: Callable[[list[Tensor | None], Tensor], object],
        step: Callable[[Tensor, Callable[[Tensor], object], list[Tensor | None]], None],
    ) -> None:
        replica = tf.distribute.get_replica_context()
        if replica.num_replicas_in_sync > 1:
            # Replicas hold the gradients of their own data until the inner optimizer reduces them.
            # In float32, because not every collective and device reduces integers.
            guilty = ops.cast(ops.logical_not(finite), "float32")
            finite = replica.all_reduce(tf.distribute.ReduceOp.SUM, guilty) == 0
        if tf.__internal__.distribute.strategy_supports_no_merge_call():
            step(finite, lambda scale: update(gradients, scale), gradients)
            return

        # A branch that merges replicas, as the inner optimizer's update does, is only allowed
        # when the condition itself is evaluated across replicas.
        def across(
            strategy: tf.distribute.Strategy, finite: Tensor, gradients: list[Tensor | None]
        ) -> None:
            def first(value: Tensor | None) -> Tensor | None:
                return None if value is None else strategy.experimental_local_results(value)[0]

            def on_each(scale: Tensor) -> None:
                strategy.extended.call_for_each_replica(update, args=(gradients, scale))

            step(first(finite), on_each, [first(one) for one in gradients])

        replica.merge_call(across, args=(finite, gradients))

    # --- fit ---

    def feed(self, batches: Sequence[TensorTree], like: Any = None) -> Any:
        if like is None or isinstance(like, tf.distribute.DistributedIterator):
            return iter(batches)  # Keras takes them step by step
        data = reduce(tf.data.Dataset.concatenate, map(tf.data.Dataset.from_tensors, batches))
        # The very same element spec, or the train function would be traced, and compiled, twice.
        handle = tf.data.experimental.to_variant(data)
        return iter(tf.data.experimental.from_variant(handle, like.element_spec))

    def can_be_fed_again(self, given: Any) -> bool:
        if isinstance(given, tf.distribute.DistributedIterator):
            return True
        specs = tree.flatten(getattr(given, "element_spec", None))
        return isinstance(given, tf.data.Iterator) and all(
            isinstance(spec, tf.TensorSpec | tf.SparseTensorSpec | tf.RaggedTensorSpec)
            for spec in specs
        )

    # --- devices ---

    def devices(self) -> list[DeviceFacts]:
        # A user can hide a card with set_visible_devices.
        asked = tf.config.experimental.get_device_details
        return [
            facts_of(one.device_type, asked(one) if one.device_type == "GPU" else {})
            for one in tf.config.get_visible_devices()
        ]

    def tf32(self) -> bool:
        return bool(tf.config.experimental.tensor_float_32_execution_enabled())

    @contextmanager
    def tf32_switched(self, on: bool) -> Iterator[None]:
        before = tf.config.experimental.tensor_float_32_execution_enabled()
        tf.config.experimental.enable_tensor_float_32_execution(on)
        try:
            yield
        finally:
            tf.config.experimental.enable_tensor_float_32_execution(before)

    def synchronize(self, values: TensorTree = None) -> None:
        tf.test.experimental.sync_devices()

    def meter(self) -> tuple[Callable[[], int], Callable[[], int]] | None:
        if not tf.config.list_logical_devices("GPU"):
            return None
        tf.config.experimental.reset_memory_stats("GPU:0")
        info = tf.config.experimental.get_memory_info
        return lambda: info("GPU:0")["current"], lambda: info("GPU:0")["peak"]

    def memory_left(self) -> int | None:
        from tensorflow.python.client import device_lib

        cards = [one for one in device_lib.list_local_devices() if one.device_type == "GPU"]
        if not cards:
            return None
        used = tf.config.experimental.get_memory_info("GPU:0")["current"]
        return max(0, int(cards[0].memory_limit) - int(used))

    def pools_memory(self) -> bool:
        # Where it uses oneDNN (tensorflow/core/common_runtime/mkl_cpu_allocator.h).
        return tensorflow_uses_onednn()

    def numerics(self) -> dict[str, bool]:
        from tensorflow.python.framework import config

        return {"deterministic": bool(config.is_op_determinism_enabled()), "tf32": self.tf32()}

    def begin(self, numerics: Mapping[str, bool], memory_limit: int | None) -> None:
        if numerics["deterministic"]:
            tf.config.experimental.enable_op_determinism()
        tf.config.experimental.enable_tensor_float_32_execution(numerics["tf32"])
        cards = tf.config.list_physical_devices("GPU")
        if cards and memory_limit is not None:
            share = tf.config.LogicalDeviceConfiguration(memory_limit=memory_limit // 2**20)
            tf.config.set_logical_device_configuration(cards[0], [share])

    def memory_growth(self) -> bool | None:
        cards = tf.config.list_physical_devices("GPU")
        return bool(tf.config.experimental.get_memory_growth(cards[0])) if cards else None

    def jit_everywhere(self) -> bool:
        return bool(tf.config.optimizer.get_jit())

    @contextmanager
    def profiler(self, folder: Path) -> Iterator[None]:
        tf.profiler.experimental.start(str(folder))
        try:
            yield
        finally:
            tf.profiler.experimental.stop()


def facts_of(device_type: str, details: Mapping[str, Any]) -> DeviceFacts:
    """Reads what `tf.config.experimental.get_device_details` tells of a physical device."""
    capability = details.get("compute_capability")
    name = str(details.get("device_name", device_type))
    kind = {"CPU": "cpu", "GPU": "gpu", "TPU": "tpu"}.get(device_type, "other")
    return kind, name, tuple(capability) if capability else None


def _name_of(op_type: str | bytes) -> str:
    """An operation's name; TensorFlow calls functions, as of Keras's convolutions, by bytes."""
    name = op_type.decode() if isinstance(op_type, bytes) else op_type
    return re.sub(r"^__inference_(\w+)_\d+$", r"\1", name)

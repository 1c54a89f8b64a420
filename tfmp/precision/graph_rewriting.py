"""graph_rewrite: TensorFlow's own mixed precision, for graphs that are not made of Keras layers.

Grappler, TensorFlow's graph optimizer, can give a traced function's operations 16-bit types and put
casts around them. It does not report its changes; here they are read back from the optimized graph.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfmp.machine import devices
from tfmp.shared.arguments import check_choice
from tfmp.shared.backend import TensorTree
from tfmp.shared.framework_start import tensorflow_uses_onednn
from tfmp.shared.report_files import JsonObject
from tfmp.shared.wording import shown

if TYPE_CHECKING:
    import tensorflow as tf
    from tensorflow.core.framework.graph_pb2 import GraphDef
    from tensorflow.core.framework.node_def_pb2 import NodeDef
    from tensorflow.python.grappler.cluster import Cluster

# It switches the rewrite on in NVIDIA's builds of TensorFlow; other builds do not read it.
VARIABLE = "TF_ENABLE_AUTO_MIXED_PRECISION"

# TensorFlow's options by the type that they introduce: FP16 on GPUs, bfloat16 on CPUs with oneDNN.
_OPTIONS = {
    "float16": "auto_mixed_precision",
    "bfloat16": "auto_mixed_precision_onednn_bfloat16",
}
DTYPES = (*_OPTIONS, "off")

_WITHOUT_ONEDNN = (
    "TensorFlow does without oneDNN on this processor, so it has no bfloat16 here. Set "
    "TF_ENABLE_ONEDNN_OPTS=1 before TensorFlow starts."
)

# The compute capability that is assumed on a machine without a GPU.
_ASSUMED_CAPABILITY = (8, 0)


@dataclass(frozen=True)
class RewrittenGraph:
    """The effect of the rewrite on one traced function.

    Attributes:
        dtype: the type that operations were given: "float16" or "bfloat16".
        changed: by kind, the number of operations that compute in this type now.
        casts: the number of casts that were added.
        kept: by kind, the number of operations that still compute in float32.
        device: the device that the graph was optimized for.
        assumed: whether this machine lacks that device, so that only the graph is known, not its
            speed.
        obstacle: the reason why this machine runs every graph as written; "" if it does not.
    """

    dtype: str
    changed: Mapping[str, int]
    casts: int
    kept: Mapping[str, int]
    device: str
    assumed: bool
    obstacle: str = ""

    @property
    def changed_ops(self) -> int:
        """The number of operations that were changed."""
        return sum(self.changed.values())

    def to_dict(self) -> JsonObject:
        """Plain JSON types."""
        return {**vars(self), "changed_ops": self.changed_ops}

    def __str__(self) -> str:
        device = f"{self.device} (assumed: there is none here)" if self.assumed else self.device
        lines = [
            f"{self.changed_ops} operations in {self.dtype}, {sum(self.kept.values())} in float32, "
            f"{self.casts} casts added, on {device}"
        ]
        for title, kinds in ((self.dtype, self.changed), ("float32", self.kept)):
            if kinds:
                named = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
                lines.append(f"  {title}: {named}")
        if not self.changed:
            reason = self.obstacle or (
                "the function has no matrix products or convolutions, or it has them in functions "
                "with jit_compile=True, which XLA compiles as they are."
            )
            lines.append(f"  Nothing was changed: {reason}")
        return "\n".join(lines)


@dataclass(frozen=True)
class GraphRewrite:
    """The rewrite as it holds in a `graph_rewrite` block.

    Attributes:
        dtype: "float16", "bfloat16" or "off".
        reason: the argument, variable or default that decided it.
    """

    dtype: str
    reason: str

    def inspect(
        self, function: Callable[..., TensorTree], *args: TensorTree, **kwargs: TensorTree
    ) -> RewrittenGraph:
        """Traces a function on arguments and optimizes its graph; nothing is computed.

        Args:
            function: a `tf.function`, or a Python function that could be made one.
            args, kwargs: the arguments of a call, or `tf.TensorSpec`s in their place.

        Raises:
            TypeError: `function` cannot be called.
            ValueError: the rewrite is off.
        """
        if self.dtype == "off":
            raise ValueError(
                f"inspect expects the rewrite to be on, but it is off: {self.reason}. "
                "graph_rewrite('float16') switches it on, whatever the environment says."
            )
        if not callable(function):
            raise TypeError(
                f"inspect expects a tf.function or another function; received {shown(function)}."
            )
        return _inspect(self.dtype, function, args, kwargs)

    def __str__(self) -> str:
        return f"graph rewrite {self.dtype}: {self.reason}"


@contextmanager
def graph_rewrite(dtype: str | None = None) -> Iterator[GraphRewrite]:
    """Switches TensorFlow's automatic mixed precision on for the graphs that run in the block.

        with tfmp.graph_rewrite() as rewrite:
            loss = train_step(x, y)                    # a tf.function
        print(rewrite.inspect(train_step, x, y))

    The rewrite applies to functions that are called in the block, wherever they were traced;
    outside the block they run as they were written. The option belongs to the process, but a thread
    that has called functions before keeps its earlier setting. Gradients need a loss scale, as
    everywhere in FP16: wrap the optimizer in `tfmp.LossScaleOptimizer`.

    Args:
        dtype: "float16" (GPUs), "bfloat16" (CPUs, through oneDNN) or "off"; None is "float16",
            or "off" if the environment has TF_ENABLE_AUTO_MIXED_PRECISION=0.

    Yields:
        The rewrite that applies in the block; its `inspect` shows the effect on a function.

    Raises:
        ValueError: `dtype` is another value.
    """
    import tensorflow as tf

    found = decide(dtype, os.environ.get(VARIABLE))
    options = tf.config.optimizer
    before = options.get_experimental_options()
    switch_graph_rewrite(found.dtype)
    try:
        yield found
    finally:
        # An option that was never set cannot be unset; it meant the same as off.
        restored = {name: before.get(name, False) for name in _OPTIONS.values()}
        options.set_experimental_options({**before, **restored})


def switch_graph_rewrite(dtype: str) -> None:
    """Switches the rewrite on for the whole process: to "float16", to "bfloat16" or "off".

    Raises:
        ValueError: `dtype` is another value.
    """
    import tensorflow as tf

    check_choice("switch_graph_rewrite", dtype, DTYPES, "'off' switches it off.")
    # Both are set, so that an option that other code switched on is off unless it is asked for.
    tf.config.optimizer.set_experimental_options(
        {name: dtype == given for given, name in _OPTIONS.items()}
    )


def decide(dtype: str | None, environment: str | None) -> GraphRewrite:
    """The rewrite that an argument and the environment variable ask for together.

    Raises:
        ValueError: the argument is no dtype.
    """
    if dtype is not None:
        hint = "'float16' is for GPUs, 'bfloat16' for CPUs."
        check_choice("graph_rewrite", dtype, DTYPES, hint)
        return GraphRewrite(dtype, "asked for by name")
    if environment is None:
        return GraphRewrite("float16", "the default")
    on = environment.strip().lower() not in ("", "0", "false", "off")
    return GraphRewrite("float16" if on else "off", f"{VARIABLE}={environment}")


def _inspect(
    dtype: str,
    function: Callable[..., TensorTree],
    args: tuple[TensorTree, ...],
    kwargs: dict[str, TensorTree],
) -> RewrittenGraph:
    import tensorflow as tf

    compiled = function if hasattr(function, "get_concrete_function") else tf.function(function)
    traced = compiled.get_concrete_function(*args, **kwargs)
    device, assumed = _device_for(dtype)
    plain = _optimized(traced.graph, dtype, False, device)
    # Grappler never sees functions that XLA compiles.
    by_xla = traced.function_def.attr["_XlaMustCompile"].b
    rewritten = plain if by_xla else _optimized(traced.graph, dtype, True, device)
    narrow = tf.as_dtype(dtype).as_datatype_enum
    changed = _computing_in(rewritten, narrow) - _computing_in(plain, narrow)
    kept = _computing_in(rewritten, tf.float32.as_datatype_enum)
    return RewrittenGraph(
        dtype=dtype,
        changed=dict(changed.most_common()),
        casts=_casts(rewritten) - _casts(plain),
        kept=dict(kept.most_common()),
        device=str(device),
        assumed=assumed,
        obstacle="" if dtype == "float16" or tensorflow_uses_onednn() else _WITHOUT_ONEDNN,
    )


def _device_for(dtype: str) -> tuple[devices.Device, bool]:
    if dtype == "bfloat16":
        return devices.CPU, False
    here = [
        device
        for device in devices.visible_devices()
        if device.kind == "gpu" and device.compute_capability
    ]
    if here:
        return here[0], False
    return devices.Device("gpu", "a GPU", _ASSUMED_CAPABILITY), True


def _optimized(graph: "tf.Graph", dtype: str, on: bool, device: devices.Device) -> "GraphDef":
    """The graph as grappler leaves it for a device, described to it rather than opened."""
    from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2
    from tensorflow.python.framework.meta_graph import create_meta_graph_def
    from tensorflow.python.grappler import tf_optimizer

    meta_graph = create_meta_graph_def(graph=graph)
    fetched = meta_graph.collection_def["train_op"].node_list.value
    # Operations with side effects stay, as they do when the function runs.
    fetched.extend(tensor.name for tensor in graph.outputs)
    fetched.extend(op.name for op in graph.control_outputs)
    config = config_pb2.ConfigProto()
    rewrites = config.graph_options.rewrite_options
    switch = rewriter_config_pb2.RewriterConfig
    setattr(rewrites, _OPTIONS[dtype], switch.ON if on else switch.OFF)
    rewrites.min_graph_nodes = -1  # small graphs too
    return tf_optimizer.OptimizeGraph(config, meta_graph, cluster=_cluster(device))


def _cluster(device: devices.Device) -> "Cluster":
    from tensorflow.core.protobuf import device_properties_pb2 as properties
    from tensorflow.python.grappler.cluster import Cluster

    place = "/job:localhost/replica:0/task:0/device:{}:0"
    # Clocks, cores and memory are for grappler's costs, which this rewrite does not weigh.
    cpu = properties.DeviceProperties(type="CPU", frequency=1000, num_cores=1)
    devices = [properties.NamedDevice(name=place.format("CPU"), properties=cpu)]
    if device.compute_capability is not None:
        gpu = properties.DeviceProperties(
            type="GPU",
            vendor="NVIDIA",
            environment={"architecture": ".".join(map(str, device.compute_capability))},
            frequency=1000,
            num_cores=1,
            memory_size=2**30,
        )
        devices.append(properties.NamedDevice(name=place.format("GPU"), properties=gpu))
    return Cluster(devices=devices)


def _nodes(graph: "GraphDef") -> "Iterator[NodeDef]":
    """The nodes of a graph and of the functions it calls, without functions that XLA compiles.

    When a graph runs, those are left as they are; when it is only optimized, they are not.
    """
    functions = {function.signature.name: function for function in graph.library.function}
    waiting, seen = [graph.node], set[str]()
    while waiting:
        for node in waiting.pop():
            yield node
            for name in _called(node) - seen:
                seen.add(name)
                if name in functions and not functions[name].attr["_XlaMustCompile"].b:
                    waiting.append(functions[name].node_def)


def _called(node: "NodeDef") -> set[str]:
    values = list(node.attr.values())
    listed = [function.name for value in values for function in value.list.func]
    return {*listed, *(value.func.name for value in values if value.func.name)}


def _computing_in(graph: "GraphDef", dtype: int) -> Counter[str]:
    """Operations that compute in a type; operations that hold, move or cast values do not count."""
    return Counter(
        node.op for node in _nodes(graph) if node.attr["T"].type == dtype and node.op not in _MOVES
    )


def _casts(graph: "GraphDef") -> int:
    return sum(node.op == "Cast" for node in _nodes(graph))


_MOVES = frozenset(
    "Identity IdentityN Reshape ExpandDims Squeeze Pack Unpack Shape StopGradient Cast Tile "
    "ConcatV2 Transpose Fill BroadcastTo Const Snapshot Slice StridedSlice Size Rank "
    "Enter Exit Merge Switch NextIteration LoopCond".split()
)

"""graph_rewrite: TensorFlow's own mixed precision, for graphs that are not made of Keras layers.

Grappler, TensorFlow's graph optimizer, can give a traced function's operations 16-bit types and put
casts around them. What it did is not told anywhere; here it is read back from the optimized graph.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tfmp.machine import devices
from tfmp.shared.arguments import check_choice
from tfmp.shared.wording import shown

# NVIDIA's builds of TensorFlow switch the rewrite on by it; upstream's does not look at it.
VARIABLE = "TF_ENABLE_AUTO_MIXED_PRECISION"

# TensorFlow's options by the type that they bring: FP16 for GPUs, bfloat16 for CPUs with oneDNN.
_OPTIONS = {
    "float16": "auto_mixed_precision",
    "bfloat16": "auto_mixed_precision_onednn_bfloat16",
}
DTYPES = (*_OPTIONS, "off")

# What is assumed of a GPU where there is none.
_ASSUMED_CAPABILITY = (8, 0)


@dataclass(frozen=True)
class RewrittenGraph:
    """What the rewrite makes of one traced function.

    Attributes:
        dtype: what operations were given: "float16" or "bfloat16".
        changed: by kind, how many operations compute in it now.
        casts: how many casts were added.
        kept: by kind, how many operations still compute in float32.
        device: what the graph was optimized for.
        assumed: whether that device is not in this machine, so that only the graph is known, not
            its speed.
    """

    dtype: str
    changed: Mapping[str, int]
    casts: int
    kept: Mapping[str, int]
    device: str
    assumed: bool

    @property
    def changed_ops(self) -> int:
        """How many operations were changed."""
        return sum(self.changed.values())

    def to_dict(self) -> dict[str, Any]:
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
            lines.append(
                "  Nothing to change: no products of matrices or images, or they are in functions "
                "with jit_compile=True, which XLA compiles as they are."
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class GraphRewrite:
    """The rewrite as it holds in a `graph_rewrite` block.

    Attributes:
        dtype: "float16", "bfloat16" or "off".
        reason: who decided that.
        environment: the value of TF_ENABLE_AUTO_MIXED_PRECISION; None if it is not set.
    """

    dtype: str
    reason: str
    environment: str | None

    def inspect(self, function: Any, *args: Any, **kwargs: Any) -> RewrittenGraph:
        """Traces a function on arguments and optimizes its graph; nothing is computed.

        Args:
            function: a `tf.function`, or a Python function that would do as one.
            args, kwargs: what it is called with, or `tf.TensorSpec`s.

        Raises:
            TypeError: `function` cannot be called.
            ValueError: the rewrite is off.
        """
        if self.dtype == "off":
            raise ValueError(
                f"inspect expects the rewrite to be on, it is off: {self.reason}. "
                "graph_rewrite('float16') switches it on whatever the environment says."
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
    """Switches TensorFlow's automatic mixed precision on for the graphs that run inside.

        with tfmp.graph_rewrite() as rewrite:
            loss = train_step(x, y)                    # a tf.function
        print(rewrite.inspect(train_step, x, y))

    It holds for functions that are called inside, wherever they were traced; outside they run as
    they were written. The option is the process's, but a thread that has called functions before
    goes on as it was. Gradients need a loss scale, as everywhere in FP16: wrap the optimizer in
    `tfmp.LossScaleOptimizer`.

    Args:
        dtype: "float16" (GPUs), "bfloat16" (CPUs, through oneDNN) or "off"; None is "float16",
            or "off" where the environment says TF_ENABLE_AUTO_MIXED_PRECISION=0.

    Yields:
        What holds inside, and `inspect`, which says what becomes of a function.

    Raises:
        ValueError: another dtype.
    """
    import tensorflow as tf

    found = decide(dtype, os.environ.get(VARIABLE))
    options = tf.config.optimizer
    before = options.get_experimental_options()
    # Both are set, so that what somebody else switched on is off where it was not asked for.
    options.set_experimental_options(
        {name: found.dtype == given for given, name in _OPTIONS.items()}
    )
    try:
        yield found
    finally:
        # An option that was never set cannot be unset; off is what that meant.
        restored = {name: before.get(name, False) for name in _OPTIONS.values()}
        options.set_experimental_options({**before, **restored})


def decide(dtype: Any, environment: str | None) -> GraphRewrite:
    """What an argument and the environment variable mean together.

    Raises:
        ValueError: the argument is no dtype.
    """
    if dtype is not None:
        hint = "'float16' is for GPUs, 'bfloat16' for CPUs."
        check_choice("graph_rewrite", dtype, DTYPES, hint)
        return GraphRewrite(dtype, "asked for by name", environment)
    if environment is None:
        return GraphRewrite("float16", "the default", None)
    on = environment.strip().lower() not in ("", "0", "false", "off")
    return GraphRewrite("float16" if on else "off", f"{VARIABLE}={environment}", environment)


def _inspect(dtype: str, function: Any, args: Any, kwargs: Any) -> RewrittenGraph:
    import tensorflow as tf

    if not hasattr(function, "get_concrete_function"):
        function = tf.function(function)
    traced = function.get_concrete_function(*args, **kwargs)
    device, assumed = _device_for(dtype)
    plain = _optimized(traced.graph, dtype, False, device)
    # XLA compiles what grappler never sees.
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
    )


def _device_for(dtype: str) -> tuple[devices.Device, bool]:
    if dtype == "bfloat16":
        return devices.CPU, False
    here = [
        device
        for device in devices.tensorflow_devices()
        if device.kind == "gpu" and device.compute_capability
    ]
    if here:
        return here[0], False
    return devices.Device("gpu", "a GPU", _ASSUMED_CAPABILITY), True


def _optimized(graph: Any, dtype: str, on: bool, device: devices.Device) -> Any:
    """The graph as grappler leaves it for a device, described to it rather than opened."""
    from tensorflow.core.protobuf import config_pb2, rewriter_config_pb2
    from tensorflow.python.framework.meta_graph import create_meta_graph_def
    from tensorflow.python.grappler import tf_optimizer

    meta_graph = create_meta_graph_def(graph=graph)
    fetched = meta_graph.collection_def["train_op"].node_list.value
    # Whatever has an effect of its own stays, as it does when the function runs.
    fetched.extend(tensor.name for tensor in graph.outputs)
    fetched.extend(op.name for op in graph.control_outputs)
    config = config_pb2.ConfigProto()
    rewrites = config.graph_options.rewrite_options
    switch = rewriter_config_pb2.RewriterConfig
    setattr(rewrites, _OPTIONS[dtype], switch.ON if on else switch.OFF)
    rewrites.min_graph_nodes = -1  # small graphs too
    return tf_optimizer.OptimizeGraph(config, meta_graph, cluster=_cluster(device))


def _cluster(device: devices.Device) -> Any:
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


def _nodes(graph: Any) -> Iterator[Any]:
    """The nodes of a graph and of the functions it calls, but for those that XLA compiles.

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


def _called(node: Any) -> set[str]:
    values = list(node.attr.values())
    listed = [function.name for value in values for function in value.list.func]
    return {*listed, *(value.func.name for value in values if value.func.name)}


def _computing_in(graph: Any, dtype: int) -> Counter[str]:
    """Operations whose values are of a type, without those that only hold, move or cast them."""
    return Counter(
        node.op for node in _nodes(graph) if node.attr["T"].type == dtype and node.op not in _MOVES
    )


def _casts(graph: Any) -> int:
    return sum(node.op == "Cast" for node in _nodes(graph))


_MOVES = frozenset(
    "Identity IdentityN Reshape ExpandDims Squeeze Pack Unpack Shape StopGradient Cast Tile "
    "ConcatV2 Transpose Fill BroadcastTo Const Snapshot Slice StridedSlice Size Rank "
    "Enter Exit Merge Switch NextIteration LoopCond".split()
)

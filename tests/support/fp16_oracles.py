"""Other programs that compute a FP16 file, to hold the emulator against; none has its code.

They run an ONNX file node by node in NumPy's float16, as `onnx.reference` has it, or with the
float16 kernels of TensorFlow or JAX on this CPU where these have the op. ONNX Runtime's
WebGPU provider runs it in the shaders of a browser.
They hold sums and steps in different precisions, which is what they are here for: a file that all
of them compute well is sound, and a file that one of them loses needs a runtime that is better.
"""

import os
import subprocess
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpFunction, OpRun
from onnx.reference.ops import load_op

from tfmp.converters.shared.tensors import Batch
from tfmp.shared.atomic_file import temporary_folder

Kernel = Callable[..., Any]

_OURS = {"op_domain": ""}

# Their results have the type that an attribute says, or are no floats of the operands' type.
_TYPED = {"Cast", "CastLike", "Constant", "ConstantOfShape", "QuantizeLinear", "DequantizeLinear"}
# Their bodies have nodes of their own.
_WITH_BODIES = {"If", "Loop", "Scan"}
# Their states are written to memory between the steps of one call.
_STATES = {"GRU": 1, "LSTM": 2, "RNN": 1}


def numpy_oracle(model: onnx.ModelProto, batch: Batch) -> Batch:
    """NumPy's float16, with every step inside every op rounded; sums are held in FP32."""
    return _evaluated(model, batch, _as_promised(model))


def kernel_oracle(model: onnx.ModelProto, batch: Batch) -> Batch:
    """NumPy, where each op computes in float32 and rounds its results: what GPU kernels promise.

    Recurrent ops round their states after each step, too.
    """
    return _evaluated(model, batch, _wide_ops(model, lambda op_type: True))


def tensorflow_oracle(model: onnx.ModelProto, batch: Batch) -> Batch:
    """TensorFlow's float16 kernels for a CPU, where it has the op; NumPy's for the rest."""
    return _evaluated(model, batch, [*_as_promised(model), *_ops(_tensorflow_kernels())])


def jax_oracle(model: onnx.ModelProto, batch: Batch) -> Batch:
    """JAX's float16 kernels for a CPU, where it has the op; NumPy's for the rest."""
    return _evaluated(model, batch, [*_as_promised(model), *_ops(_jax_kernels())])


def webgpu_oracle(model: onnx.ModelProto, batch: Batch) -> Batch:
    """ONNX Runtime's WebGPU provider, in a process of the Python that TFMP_WEBGPU names.

    Raises:
        RuntimeError: the provider does not take the model; the text is the end of its words.
    """
    python = webgpu_python()
    assert python is not None
    inputs = [value.name for value in model.graph.input if value.name in batch]
    with temporary_folder() as folder:
        onnx.save(model, folder / "model.onnx")
        np.savez(folder / "inputs.npz", **{f"i{k}": batch[n] for k, n in enumerate(inputs)})
        done = subprocess.run(
            [python, str(Path(__file__).with_name("webgpu_run.py")), str(folder)],
            capture_output=True,
            text=True,
            timeout=600,
            env={k: v for k, v in os.environ.items() if not k.startswith("PYTHON")},
        )
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[-500:])
        with np.load(folder / "outputs.npz") as made:
            values = [made[f"o{k}"] for k in range(len(made.files))]
    return dict(zip((value.name for value in model.graph.output), values, strict=True))


def webgpu_python() -> str | None:
    """The Python that has onnxruntime-webgpu and an adapter with FP16, as TFMP_WEBGPU names it.

    Mesa's adapter in software is one from version 25 on (benchmarks/webgpu_python.sh).
    """
    return os.environ.get("TFMP_WEBGPU")


ORACLES: Mapping[str, Callable[[onnx.ModelProto, Batch], Batch]] = {
    "NumPy": numpy_oracle,
    "NumPy, FP32 inside": kernel_oracle,
    "TensorFlow": tensorflow_oracle,
    "JAX": jax_oracle,
    **({"WebGPU": webgpu_oracle} if webgpu_python() else {}),
}


def _evaluated(model: onnx.ModelProto, batch: Batch, ops: Sequence[type[OpRun]]) -> Batch:
    feeds = {value.name: batch[value.name] for value in model.graph.input if value.name in batch}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        given = ReferenceEvaluator(_stacking(model), new_ops=list(ops)).run(None, feeds)
    return dict(zip((value.name for value in model.graph.output), given, strict=True))


def _stacking(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with an axis added to what loops collect: the evaluator joins on the first one."""
    loops = [node for node in _nodes(model.graph) if node.op_type == "Loop"]
    if not any(len(node.output) > len(node.input) - 2 for node in loops):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for node in _nodes(copy.graph):
        if node.op_type != "Loop":
            continue
        body = node.attribute[0].g
        for value in body.output[len(node.input) - 1 :]:
            axis, wide = f"{value.name}_axis", f"{value.name}_stacked"
            zero = onnx.numpy_helper.from_array(np.array([0], np.int64), axis)
            body.node.append(onnx.helper.make_node("Constant", [], [axis], value=zero))
            body.node.append(onnx.helper.make_node("Unsqueeze", [value.name, axis], [wide]))
            value.name = wide
            value.type.tensor_type.ClearField("shape")
    return copy


def _as_promised(model: onnx.ModelProto) -> list[type[OpRun]]:
    """Ops whose inside is float32 by the standard's stash_type, of which the evaluator takes no
    notice; and InstanceNormalization, which every runtime of `facts` sums in float32 (ONNX Runtime
    on CUDA by cuDNN; on WebGPU core/providers/webgpu/nn/instance_norm.cc, commit 0f72de7). The
    evaluator takes the logarithm of Softmax for LogSoftmax, which no runtime does, and NumPy adds
    float16 in float32 along the last axis only.
    """
    kept = {
        *("InstanceNormalization", "LayerNormalization", "LogSoftmax"),
        *("ReduceSum", "RMSNormalization"),
    }
    return _wide_ops(model, kept.__contains__)


def _wide_ops(model: onnx.ModelProto, meant: Callable[[str], bool]) -> list[type[OpRun]]:
    kinds = {(node.domain, node.op_type) for node in _nodes(model.graph) if meant(node.op_type)}
    version = {entry.domain: entry.version for entry in model.opset_import}
    made = (_wide(domain, op_type, version.get(domain, 1)) for domain, op_type in sorted(kinds))
    return [op for op in made if op is not None]


def _nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    found = []
    for node in graph.node:
        found.append(node)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found += _nodes(attribute.g)
    return found


def _is_half(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic) and value.dtype == np.float16


def _wide(domain: str, op_type: str, version: int) -> type[OpRun] | None:
    """The evaluator's op in float32 with rounded results; None where it is left as it is."""
    if domain or op_type in _TYPED | _WITH_BODIES:
        return None
    try:
        made = load_op(domain, op_type, version)
    except Exception:  # the evaluator has no such op, and says so in several ways
        return None
    if not isinstance(made, type) or issubclass(made, OpFunction):
        return None
    whole: Any = made
    ours = {"op_schema": onnx.defs.get_schema(op_type, version, domain), **_OURS}
    if op_type in _STATES:
        return type(op_type, (made,), {"_run": _stepwise(whole, _STATES[op_type]), **ours})

    def _run(self: Any, *operands: Any, **attributes: Any) -> tuple[Any, ...]:
        if not any(map(_is_half, operands)):
            return tuple(whole._run(self, *operands, **attributes))
        wide = (v.astype(np.float32) if _is_half(v) else v for v in operands)
        results = whole._run(self, *wide, **attributes)
        return tuple(
            v.astype(np.float16) if getattr(v, "dtype", None) == np.float32 else v for v in results
        )

    return type(op_type, (made,), {"_run": _run, **ours})


def _stepwise(whole: Any, count: int) -> Kernel:
    """A recurrent op in float32 that is called for one step at a time.

    Args:
        whole: the evaluator's op.
        count: number of its states.
    """

    def _run(
        self: Any, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, *rest: Any, **how
    ) -> tuple[Any, ...]:
        if not _is_half(x) or how.get("layout") or lengths is not None or len(rest) > count:
            return tuple(whole._run(self, x, w, r, b, lengths, *rest, **how))
        direction, wanted = self.direction, self.n_outputs
        self.direction, self.n_outputs = "forward", count + 1
        parts = []
        for index in range(len(w)):
            own = [v if v is None else v[index : index + 1] for v in (w, r, b)]
            states = [v if v is None else v[index : index + 1] for v in rest] or [None] * count
            order = np.arange(len(x))
            backwards = direction == "reverse" or index
            made = []
            for moment in order[::-1] if backwards else order:
                step = (x[moment : moment + 1], *own, None, *states)
                wide = (v if v is None else v.astype(np.float32) for v in step)
                y, *states = (v.astype(np.float16) for v in whole._run(self, *wide, **how))
                made.append(y)
            parts.append((np.concatenate(made[::-1] if backwards else made), *states))
        self.direction, self.n_outputs = direction, wanted
        ends = [np.concatenate([part[k + 1] for part in parts]) for k in range(count)]
        return (np.concatenate([part[0] for part in parts], 1), *ends)[:wanted]

    return _run


def _ops(kernels: Mapping[str, Kernel]) -> list[type[OpRun]]:
    """Ops of the evaluator that hand FP16 operands to kernels."""
    return [op for op in (_routed(*item) for item in kernels.items()) if op is not None]


def _routed(op_type: str, kernel: Kernel) -> type[OpRun] | None:
    def _run(self: Any, *operands: Any, **attributes: Any) -> tuple[Any, ...]:
        if any(map(_is_half, operands)):
            if not attributes:  # the evaluator hands those of unary ops on as members alone
                attributes = {name: getattr(self, name) for name in self.attributes_names_}
            result = kernel(*operands, **attributes)
            if result is not None:
                return (np.asarray(result),)
        own = load_op("", op_type, _VERSION)
        return tuple(own._run(self, *operands, **attributes))  # type: ignore[union-attr]

    made = load_op("", op_type, _VERSION)
    return type(op_type, (made,), {"_run": _run, **_OURS})  # type: ignore[misc]


# The opset of the adversarial models and of tfmp's own exports is at most this one.
_VERSION = 18


def _axes(x: np.ndarray, axes: Any, noop: Any) -> tuple[int, ...] | None:
    if axes is None or not np.size(axes):
        return () if noop else tuple(range(x.ndim))
    return tuple(int(axis) % x.ndim for axis in np.reshape(axes, -1))


def _kernels(total: Kernel, mean: Kernel, log_sum: Kernel, root: Kernel, **others: Kernel) -> dict:
    """Kernels of ONNX's ops from functions of an array, axes and whether these are kept."""

    def reduction(function: Kernel) -> Kernel:
        def run(x: Any, axes: Any = None, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
            return function(x, _axes(x, axes, noop_with_empty_axes), bool(keepdims))

        return run

    return {
        "ReduceSum": reduction(total),
        "ReduceMean": reduction(mean),
        "ReduceL2": reduction(lambda x, a, k: root(total(x * x, a, k))),
        "ReduceSumSquare": reduction(lambda x, a, k: total(x * x, a, k)),
        "ReduceLogSumExp": reduction(log_sum),
        **others,
    }


def _tensorflow_kernels() -> dict[str, Kernel]:
    import tensorflow as tf

    return _kernels(
        *(tf.reduce_sum, tf.reduce_mean, tf.reduce_logsumexp, tf.sqrt),
        Exp=tf.exp,
        Sigmoid=tf.sigmoid,
        Tanh=tf.tanh,
        Log=tf.math.log,
        MatMul=lambda a, b: tf.matmul(a, b) if min(a.ndim, b.ndim) > 1 else None,
        CumSum=lambda x, axis, exclusive=0, reverse=0: tf.cumsum(
            x, int(axis), bool(exclusive), bool(reverse)
        ),
        Softmax=lambda x, axis=-1: tf.nn.softmax(x, axis),
    )


def _jax_kernels() -> dict[str, Kernel]:
    import jax
    import jax.numpy as jnp

    def named(function: Kernel) -> Kernel:
        return lambda x, axes, kept: function(x, axis=axes, keepdims=kept)

    return _kernels(
        *(named(jnp.sum), named(jnp.mean), named(jax.scipy.special.logsumexp), jnp.sqrt),
        Exp=jnp.exp,
        Sigmoid=jax.nn.sigmoid,
        Tanh=jnp.tanh,
        Log=jnp.log,
        MatMul=jnp.matmul,
        CumSum=lambda x, axis, exclusive=0, reverse=0: (
            None if exclusive or reverse else jnp.cumsum(x, int(axis))
        ),
        Softmax=lambda x, axis=-1: jax.nn.softmax(x, axis),
    )

"""The layers that Tensor Cores can compute, by kind of layer, dtype and sizes.

Only the profiler's statistics tell whether a kernel really ran on them (`tfmp.profiling.kernels`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from keras import layers

from tfmp.machine import Device
from tfmp.precision.layer_tree import LayerNode

# NVIDIA, "Train With Mixed Precision", section on shape constraints: FP16 matrix products use
# Tensor Cores best when every size is a multiple of 8.
TENSOR_CORE_MULTIPLE = 8

# NVIDIA, "Matrix Multiplication Background": 16 bytes are 8 numbers of 16 bits, 4 of TF32.
MULTIPLES = {"float16": TENSOR_CORE_MULTIPLE, "bfloat16": TENSOR_CORE_MULTIPLE, "float32": 4}

_TRANSPOSED = (layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose)
_CONVOLUTIONS = (layers.Conv1D, layers.Conv2D, layers.Conv3D, *_TRANSPOSED)
_PRODUCTS = (
    *_CONVOLUTIONS,
    layers.SeparableConv1D,
    layers.SeparableConv2D,
    layers.MultiHeadAttention,
    layers.GroupQueryAttention,
    layers.RNN,  # LSTM, GRU and ConvLSTM are kinds of it
    layers.Dense,
    layers.EinsumDense,
    layers.Dot,
    layers.Attention,
)


@dataclass(frozen=True)
class TensorCorePath:
    """Whether a layer's work can run on Tensor Cores.

    Attributes:
        eligible: the layer is a matrix product or convolution in a dtype of Tensor Cores.
        reason: why it is not eligible, or the sizes that slow it down; otherwise empty.
    """

    eligible: bool
    reason: str = ""


def tensor_core_path(node: LayerNode, dtype: str, tf32: bool = False) -> TensorCorePath:
    """Whether Tensor Cores can compute a built layer in a dtype, on a card that has them.

    Float32 products may run as TF32.
    """
    missing = ineligible_reason(node.layer)
    if missing:
        return TensorCorePath(False, missing)
    if dtype not in MULTIPLES or (dtype == "float32" and not tf32):
        return TensorCorePath(False, f"computes in {dtype}")
    return TensorCorePath(True, ", ".join(padded_sizes(sizes_of(node), MULTIPLES[dtype])))


def ineligible_reason(layer: layers.Layer) -> str:
    """Why Tensor Cores cannot compute a layer in any dtype; empty if they can."""
    layer = _wrapped(layer)
    if isinstance(layer, layers.DepthwiseConv1D | layers.DepthwiseConv2D):
        return "depthwise: a single channel is no matrix product"
    if isinstance(layer, _CONVOLUTIONS) and getattr(layer, "groups", 1) > 1:
        channels = layer.kernel.shape[-2] if layer.built else 1
        per_group = min(layer.filters // layer.groups, channels)
        if per_group < TENSOR_CORE_MULTIPLE:
            return f"grouped: {per_group} channels a group are too few"
    if isinstance(layer, _PRODUCTS):
        return ""
    return "looks rows up" if isinstance(layer, layers.Embedding) else "no matrix product"


def padded_sizes(sizes: Mapping[str, int], multiple: int = TENSOR_CORE_MULTIPLE) -> list[str]:
    """The sizes that Tensor Cores have to pad, each with the next one that fits."""
    padded = {name: -(-value // multiple) * multiple for name, value in sizes.items()}
    return [f"{k} {v} (padded: {padded[k]})" for k, v in sizes.items() if v != padded[k]]


def sizes_of(node: LayerNode) -> dict[str, int]:
    """The sizes of a layer's matrix products that its weights and settings determine, by name:
    "units", "filters", "input features".
    """
    layer = _wrapped(node.layer)
    found: dict[str, int] = {}
    kernel = getattr(getattr(layer, "cell", layer), "kernel", None)
    if isinstance(layer, (*_CONVOLUTIONS, layers.Dense, layers.RNN)) and kernel is not None:
        of = "channels" if isinstance(layer, _CONVOLUTIONS) else "features"
        found[f"input {of}"] = kernel.shape[-1 if isinstance(layer, _TRANSPOSED) else -2]
    for name in ("units", "filters", "key_dim", "value_dim", "head_dim"):
        value = getattr(layer, name, getattr(layer, f"_{name}", None))
        if isinstance(value, int) and value:
            found[name] = value
    return found


def _wrapped(layer: layers.Layer) -> layers.Layer:
    """The layer that does the work of a wrapper; the layer itself if it wraps none."""
    if isinstance(layer, layers.Bidirectional):
        return layer.forward_layer
    return _wrapped(layer.layer) if isinstance(layer, layers.Wrapper) else layer


def has_tensor_cores(device: Device) -> bool:
    """Whether a device has Tensor Cores, or units for matrix products like them (TPU)."""
    return device.tensor_cores or device.kind == "tpu"

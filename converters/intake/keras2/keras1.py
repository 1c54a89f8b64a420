"""Architectures of Keras 1 in the words of Keras 2."""

from collections.abc import Mapping
from typing import Any

from tfmp.converters.shared.errors import InputError

_Inner = dict[str, Any]

# Names that Keras 2 changed: of classes, and of arguments of any layer.
_CLASSES = {
    "AtrousConvolution1D": "Conv1D",
    "AtrousConvolution2D": "Conv2D",
    "Convolution1D": "Conv1D",
    "Convolution2D": "Conv2D",
    "Convolution3D": "Conv3D",
    "Deconvolution2D": "Conv2DTranspose",
    "Deconvolution3D": "Conv3DTranspose",
    "SeparableConvolution2D": "SeparableConv2D",
}
_ARGUMENTS = {
    "atrous_rate": "dilation_rate",
    "bias": "use_bias",
    "border_mode": "padding",
    "dropout_U": "recurrent_dropout",
    "dropout_W": "dropout",
    "filter_length": "kernel_size",
    "inner_activation": "recurrent_activation",
    "length": "size",
    "nb_filter": "filters",
    "p": "rate",
    "pool_length": "pool_size",
    "sigma": "stddev",
    "stride": "strides",
    "subsample": "strides",
    "subsample_length": "strides",
}
# Of no use to a trained model.
_DROPPED = (
    "W_constraint W_regularizer U_regularizer b_constraint b_regularizer beta_init cache_enabled "
    "consume_less forget_bias_init gamma_init gamma_regularizer beta_regularizer init inner_init"
).split()
_RECURRENT = ("LSTM", "GRU", "SimpleRNN")
_KERNEL = ("nb_row", "nb_col"), ("kernel_dim1", "kernel_dim2", "kernel_dim3")
_ORDERS = {"tf": "channels_last", "th": "channels_first"}
_MERGES = {
    "ave": "Average",
    "concat": "Concatenate",
    "max": "Maximum",
    "mul": "Multiply",
    "sum": "Add",
}


def in_words_of_keras_2(kind: str, inner: _Inner) -> tuple[str, _Inner]:
    """Class and arguments of a layer in the words of Keras 2; what is in them already stays.

    Raises:
        InputError: the layer has no counterpart in Keras 2.
    """
    if kind == "Merge":
        return _merge(inner)
    if kind == "BatchNormalization" and inner.get("mode") == 1:
        raise InputError(
            f"layer {inner.get('name')!r} normalizes each sample (mode=1), which only Keras 1 "
            "could",
            "Convert a model of Keras 2 or later",
        )
    words = {*_DROPPED, *_ARGUMENTS, "dim_ordering", "input_dtype"}
    if kind not in _CLASSES and words.isdisjoint(inner):
        return kind, inner
    found = {key: value for key, value in inner.items() if key not in _DROPPED}
    if kind in _RECURRENT or kind == "Dense":
        _rename(found, {"output_dim": "units"})
    if kind in ("Embedding", "BatchNormalization"):
        for key in ("dropout", "mode"):
            found.pop(key, None)
    else:
        _place(kind, found)  # an Embedding has input_dim and input_length to this day
    if kind.startswith("Deconvolution"):
        found.pop("output_shape", None)
    for sizes in _KERNEL:
        if sizes[0] in found:
            found["kernel_size"] = [found.pop(size) for size in sizes]
    dtype = found.pop("input_dtype", None)  # of the inputs, where Keras 2 has the layer's own
    if kind == "InputLayer":
        found["dtype"] = dtype or "float32"
    order = found.pop("dim_ordering", None)
    if order is not None:
        found["data_format"] = _ORDERS.get(order, "channels_last")
    _rename(found, _ARGUMENTS)
    return _CLASSES.get(kind, kind), found


def _rename(inner: _Inner, names: Mapping[str, str]) -> None:
    for old in [key for key in inner if key in names]:
        inner[names[old]] = inner.pop(old)


def _place(kind: str, inner: _Inner) -> None:
    """Input sizes of a first layer, which Keras 1 also told apart, as one shape."""
    size, length = inner.pop("input_dim", None), inner.pop("input_length", None)
    if inner.get("batch_input_shape") or size is None:
        return
    flat = kind == "Dense"
    inner["batch_input_shape"] = [None, size] if flat else [None, length, size]


def _merge(inner: _Inner) -> tuple[str, _Inner]:
    mode = inner.get("mode")
    if inner.get("layers"):
        raise InputError(
            f"layer {inner.get('name')!r} holds the branches that it joins, as in Keras 1 alone",
            "Build the model in a function, and name it with --architecture FILE.py:function",
        )
    if mode not in _MERGES or inner.get("mode_type", "raw") != "raw":
        raise InputError(
            f"layer {inner.get('name')!r} merges by {mode!r}, which Keras 2 lacks or which is "
            "Python code that would run here",
            "Rebuild the layer as a class of Keras 2 or later",
        )
    found: _Inner = {"name": inner.get("name")}
    if mode == "concat":
        found["axis"] = inner.get("concat_axis", -1)
    return _MERGES[mode], found

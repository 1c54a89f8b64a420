"""Stores the large constants of a float32 .tflite file in FP16.

TensorFlow's own pass rounds all constants. That costs accuracy on CPUs, which compute in FP32, and
saves nothing where constants are small: an offset of 20,000 days moves by up to 8, and the operator
and tensors that each FP16 constant brings outweigh a bias. XNNPACK and GPU delegates that compute
in FP16 round small constants themselves.
"""

from copy import copy

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from tfmp.converters.tflite.export.outputs import add_code
from tfmp.converters.tflite.file import PROMISE, PROMISED, TFLiteModel, add_metadata
from tfmp.shared.numerics import FLOAT16

# Elements of a constant that stays in FP32, and of one along a single axis: biases and
# normalizations. The files of MLPerf Tiny and of keras.applications are 1.6 % larger at most, and
# the smallest are smaller (benchmarks/tflite_table.py).
_SMALL, _SMALL_VECTOR = 1024, 4096

_DEQUANTIZE = schema.BuiltinOperator.DEQUANTIZE
# The first version whose operand is float16 (tensorflow/lite/tools/versioning/op_version.cc).
_DEQUANTIZE_VERSION = 3

# Operators that read masks and limits: FP16 hardware makes infinity of numbers past its range, and
# 0 * infinity is no number.
_READ_AS_LIMITS = {
    getattr(schema.BuiltinOperator, name)
    for name in ("MUL", "SELECT", "SELECT_V2", "MINIMUM", "MAXIMUM")
}


def store_in_fp16(model: schema.ModelT, accumulate: str) -> None:
    """Rounds large float32 constants to FP16; their readers get them through a DEQUANTIZE.

    Args:
        model: a float32 file as objects; it is changed.
        accumulate: precision of the sums that the file allows, "fp16" or "fp32".
    """
    given = {graph.tensors[index].buffer for graph in model.subgraphs for index in graph.outputs}
    tensors = [tensor for graph in model.subgraphs for tensor in graph.tensors]
    halves = {tensor.buffer for tensor in tensors if _is_large(tensor, model)} - given
    _bound_limits(model, halves)
    code = add_code(model, _DEQUANTIZE, _DEQUANTIZE_VERSION) if halves else 0
    for graph in model.subgraphs:
        added = []
        for index, tensor in enumerate(list(graph.tensors)):
            if tensor.buffer in halves:
                half = copy(tensor)
                half.type = schema.TensorType.FLOAT16
                tensor.name, tensor.buffer = tensor.name + b"_dequantized", 0
                graph.tensors.append(half)
                added.append(_dequantize(code, len(graph.tensors) - 1, index))
        graph.operators = [*added, *(graph.operators or ())]
    for index in halves:
        values = _values(model, index)
        model.buffers[index].data = _bounded(values).astype(np.float16).view(np.uint8)
    add_metadata(model, PROMISE, PROMISED + accumulate.encode())


def _is_large(tensor: schema.TensorT, model: schema.ModelT) -> bool:
    data = model.buffers[tensor.buffer].data
    if tensor.type != schema.TensorType.FLOAT32 or data is None:
        return False
    count = data.size // 4
    along_one_axis = max(tensor.shape, default=1) == count
    return count > (_SMALL_VECTOR if along_one_axis else _SMALL)


def _bound_limits(model: schema.ModelT, halves: set[int]) -> None:
    """Keeps constants that stay FP32 within FP16 where infinity would not do."""
    for graph in model.subgraphs:
        for operator in graph.operators or ():
            if model.operatorCodes[operator.opcodeIndex].builtinCode not in _READ_AS_LIMITS:
                continue
            for tensor in (graph.tensors[index] for index in operator.inputs):
                data = model.buffers[tensor.buffer].data
                known = tensor.type == schema.TensorType.FLOAT32 and data is not None
                if known and tensor.buffer not in halves:
                    bounded = _bounded(_values(model, tensor.buffer))
                    model.buffers[tensor.buffer].data = bounded.view(np.uint8)


def _values(model: schema.ModelT, buffer: int) -> np.ndarray:
    values: np.ndarray = model.buffers[buffer].data.view(np.float32)
    return values


def _bounded(values: np.ndarray) -> np.ndarray:
    return np.clip(values, -FLOAT16.max, FLOAT16.max)


def _dequantize(code: int, half: int, whole: int) -> schema.OperatorT:
    operator = schema.OperatorT()
    operator.opcodeIndex = code
    operator.inputs, operator.outputs = np.array([half], np.int32), np.array([whole], np.int32)
    operator.builtinOptionsType = schema.BuiltinOptions.DequantizeOptions
    operator.builtinOptions = schema.DequantizeOptionsT()
    return operator


def account(model: TFLiteModel) -> str:
    """The bytes of a file and of its float constants, in words; shared buffers count once."""
    totals = {"float16": 0, "float32": 0}
    for tensor in model.constants():
        if tensor.spec.dtype in totals:
            totals[tensor.spec.dtype] += tensor.nbytes
    text = f"{_size(model.path.stat().st_size)}: {_size(totals['float16'])} of FP16 weights"
    return text + f", {_size(totals['float32'])} of FP32 constants" * bool(totals["float32"])


def _size(nbytes: int) -> str:
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if nbytes >= scale:
            return f"{nbytes / scale:.3g} {unit}"
    return f"{nbytes} bytes"

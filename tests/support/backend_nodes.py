"""ONNX's own single-operator tests, which the `onnx` package brings along, through the FP16 pass.

Each case is a model, its inputs and the outputs that ONNX's authors expect. The original and the
emulated FP16 model run on ONNX Runtime or, where that lacks the op, on ONNX's reference
evaluator.
"""

import pkgutil
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator

from tfmp.converters.onnx.emulation.emulate import emulated
from tfmp.converters.onnx.emulation.profiles import Profile
from tfmp.converters.onnx.fp16.rewriter import prepare, to_fp16
from tfmp.converters.onnx.graph.types import check
from tfmp.converters.shared.errors import ConversionError
from tfmp.converters.shared.sessions import cpu_session

# Inputs, constants and results are rounded by 2**-11 each. Sums of terms carry roundings as large
# as their largest term's, so the absolute tolerance grows with the largest expected value.
RTOL, ATOL = 1e-2, 5e-3

# ONNX Runtime 1.26 reads no newer model format; the format says nothing about operators.
_IR_VERSION = 11

Arrays = Sequence[Any]


@dataclass(frozen=True)
class Outcome:
    """What became of one case.

    Attributes:
        name: of the case.
        result: "fp16", "fp32" (all of it stayed, for `detail`), "no float32" (nothing to
            convert), "invalid" (the original itself fails ONNX's full check), "not run" (nothing
            here executes the original) or "failed".
        detail: the reasons to stay FP32, or what failed.
    """

    name: str
    result: str
    detail: str = ""


@cache
def cases(every: int = 1) -> list[Any]:
    """The cases, as ONNX makes them: all (some seconds), or those of one file in so many."""
    from onnx.backend.test.case import node

    files = pkgutil.walk_packages(node.__path__, f"{node.__name__}.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflows that the cases are about
        for file in list(files)[::every]:
            import_module(file.name)
    return list(node._NodeTestCases)


def outcome(case: Any, profile: str = "gpu") -> Outcome:
    """Converts, checks, runs and compares one of `cases()`, by a profile of the emulator."""
    try:
        check(ir.from_proto(case.model))
    except ConversionError as error:
        return Outcome(case.name, "invalid", str(error))
    try:
        converted, report = to_fp16(ir.from_proto(case.model))
    except Exception as error:
        return Outcome(case.name, "failed", f"{type(error).__name__}: {error}")
    if not report.half_nodes and not report.islands:
        return Outcome(case.name, "no float32")
    try:
        check(converted)
    except Exception as error:
        return Outcome(case.name, "failed", f"{type(error).__name__}: {error}")
    wrong = _run_and_compare(case, ir.to_proto(converted), Profile.parse(profile))
    if wrong is not None:
        return Outcome(case.name, "not run" if wrong == "" else "failed", wrong)
    reasons = sorted({island.reason for island in report.islands})
    return Outcome(case.name, "fp16" if report.half_nodes else "fp32", "; ".join(reasons))


def _run_and_compare(case: Any, converted: onnx.ModelProto, profile: Profile) -> str | None:
    """What is wrong with the FP16 model; None if nothing, "" if the original cannot be run."""
    inputs = [_feed(case.model, values) for values, _ in case.data_sets]
    for execute in (_on_onnxruntime, _on_reference):
        try:
            originals = [execute(case.model, feed) for feed in inputs]
        except Exception:  # each executor has its own
            continue
        wide = ir.from_proto(converted)
        prepare(wide)
        try:
            if execute is _on_onnxruntime:
                execute(converted, inputs[0])
            proto = ir.to_proto(emulated(wide, profile))
            results = [execute(proto, feed) for feed in inputs]
        except Exception as error:
            return f"cannot run: {str(error).splitlines()[0]}"
        for (_, expected), original, received in zip(
            case.data_sets, originals, results, strict=True
        ):
            # Where the executor disagrees with ONNX in float32, its own answer is the measure.
            truth = expected if _close(expected, original) else original
            if not _close(truth, received):
                return f"{_flat(received)} differs from {_flat(truth)}"
        return None
    return ""


def _feed(model: onnx.ModelProto, values: Arrays) -> dict[str, Any]:
    feed = {}
    for value, array in zip(model.graph.input, values, strict=False):
        if isinstance(array, onnx.TensorProto):
            array = onnx.numpy_helper.to_array(array)
        if array is not None:
            feed[value.name] = array if isinstance(array, list) else np.asarray(array)
    return feed


def _copied(feed: dict[str, Any]) -> dict[str, Any]:
    """ONNX Runtime updates running statistics in the arrays it is fed."""
    return {k: v.copy() for k, v in feed.items()}


def _on_onnxruntime(model: onnx.ModelProto, feed: dict[str, Any]) -> Arrays:
    older = onnx.ModelProto()
    older.CopyFrom(model)
    older.ir_version = min(model.ir_version, _IR_VERSION)
    return cpu_session(older.SerializeToString()).run(None, _copied(feed))


def _on_reference(model: onnx.ModelProto, feed: dict[str, Any]) -> Arrays:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ReferenceEvaluator(model).run(None, _copied(feed))


def _flat(values: Arrays) -> list[np.ndarray]:
    """Tensors of outputs that may be sequences or absent."""
    flat: list[np.ndarray] = []
    for value in values:
        if isinstance(value, onnx.TensorProto):
            value = onnx.numpy_helper.to_array(value)
        if isinstance(value, list):
            flat += _flat(value)
        elif value is not None:
            flat.append(np.asarray(value))
    return flat


def _close(expected: Arrays, received: Arrays) -> bool:
    one, other = _flat(expected), _flat(received)
    return len(one) == len(other) and all(map(_arrays_close, one, other))


def _arrays_close(expected: np.ndarray, received: np.ndarray) -> bool:
    if expected.shape != received.shape:
        return False
    if expected.dtype.kind not in "fV":  # V: bfloat16 and narrower, which NumPy does not know
        return bool(np.array_equal(expected, received))
    wide, other = expected.astype(np.float64), received.astype(np.float64)
    scale = np.max(np.abs(wide), where=np.isfinite(wide), initial=1.0)
    return bool(np.allclose(other, wide, rtol=RTOL, atol=ATOL * scale, equal_nan=True))

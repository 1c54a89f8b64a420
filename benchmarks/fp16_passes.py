"""The FP16 passes that `fp16_peers.py` compares, each as a function of a model and its samples."""

import contextlib
import importlib.util
import io
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from tfmp.converters.drift.budget import DriftBudget
from tfmp.converters.onnx.fp16 import prepare, to_fp16
from tfmp.converters.onnx.rewrites import rewrite
from tfmp.converters.onnx.switches import name_nodes
from tfmp.converters.repair import find_islands


@dataclass(frozen=True)
class Sample:
    """A float32 model and inputs of it."""

    model: onnx.ModelProto
    batch: dict[str, np.ndarray]


# The converted model, and the seconds it took.
Pass = Callable[[Sample], tuple[onnx.ModelProto, float]]
Peer = Callable[[onnx.ModelProto], onnx.ModelProto]


def copied(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy, for passes that change what they are given."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def _timed(convert: Callable[[onnx.ModelProto, Sample], onnx.ModelProto]) -> Pass:
    def run(sample: Sample) -> tuple[onnx.ModelProto, float]:
        copy = copied(sample.model)
        start = time.perf_counter()
        converted = convert(copy, sample)
        return converted, time.perf_counter() - start

    return run


def _tfmp(model: onnx.ModelProto, sample: Sample) -> onnx.ModelProto:
    return ir.to_proto(to_fp16(ir.from_proto(model))[0])


def _tfmp_mixed(model: onnx.ModelProto, sample: Sample) -> onnx.ModelProto:
    loaded = ir.from_proto(model)
    prepare(loaded)
    rewritten = rewrite(loaded)
    name_nodes(loaded)
    found = find_islands(loaded, [sample.batch], DriftBudget())
    return ir.to_proto(to_fp16(loaded, keep_nodes=found.islands, rewritten=rewritten)[0])


def _onnxconverter_common(model: onnx.ModelProto) -> onnx.ModelProto:
    """Microsoft's pass, inputs and outputs kept."""
    from onnxconverter_common import float16

    return float16.convert_float_to_float16(model, keep_io_types=True)


def _onnxruntime_transformers(model: onnx.ModelProto) -> onnx.ModelProto:
    """ONNX Runtime's fork of it."""
    from onnxruntime.transformers import float16

    return float16.convert_float_to_float16(model, keep_io_types=True)


PEERS: dict[str, Peer] = {
    "onnxconverter-common": _onnxconverter_common,
    "onnxruntime.transformers": _onnxruntime_transformers,
}


class AutoCast:
    """NVIDIA ModelOpt's AutoCast in the environment that has it; see `autocast_worker.py`."""

    def __init__(self, python: str) -> None:
        worker = Path(__file__).with_name("autocast_worker.py")
        self._process = subprocess.Popen(
            [python, str(worker)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def __call__(self, sample: Sample) -> tuple[onnx.ModelProto, float]:
        assert self._process.stdin
        assert self._process.stdout
        with tempfile.TemporaryDirectory() as folder:
            job = {key: f"{folder}/{key}" for key in ("model", "output")}
            job["samples"] = f"{folder}/samples.npz"
            onnx.save(sample.model, job["model"])
            np.savez(job["samples"], **sample.batch)
            print(json.dumps(job), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
            if not line:
                raise EOFError("the worker ended")
            answer: dict[str, Any] = json.loads(line)
            if "error" in answer:
                raise type(answer["error"], (Exception,), {})()
            return onnx.load(job["output"]), answer["seconds"]

    def close(self) -> None:
        """Ends the worker."""
        self._process.communicate()


def all_passes(stack: contextlib.ExitStack, modelopt: str | None) -> dict[str, Pass]:
    """The passes by name, this project's two first.

    Args:
        stack: ends AutoCast's process.
        modelopt: the Python of the environment with ModelOpt, or None.
    """
    passes: dict[str, Pass] = {"tfmp": _timed(_tfmp), "tfmp mixed": _timed(_tfmp_mixed)}
    if importlib.util.find_spec("onnxconverter_common") is None:
        sys.exit("onnxconverter-common is not installed: pip install onnxconverter-common")
    for name, peer in PEERS.items():
        passes[name] = _timed(lambda model, _, peer=peer: peer(model))
    if modelopt:
        autocast = AutoCast(modelopt)
        stack.callback(autocast.close)
        passes["AutoCast"] = autocast
    else:
        print("AutoCast is left out: --modelopt names no Python", file=sys.stderr)
    return passes


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hides what the passes print."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield

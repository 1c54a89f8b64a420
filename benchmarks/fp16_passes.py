"""The FP16 passes that `fp16_peers.py` compares, each as a function of a model and its samples.

Each gets a model in the form that it works on, a protobuf or an onnx_ir graph. It is timed from the
float32 file on disk to an FP16 file that is known to be valid, in processor time, so that other
work on the machine does not decide.
"""

import contextlib
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from tfmp.converters.drift.budget import DriftBudget
from tfmp.converters.onnx.fp16.rewriter import prepare, to_fp16
from tfmp.converters.onnx.graph import name_nodes
from tfmp.converters.onnx.graph.storage import save_checked
from tfmp.converters.onnx.mixed import find_islands
from tfmp.converters.onnx.rewrites.pipeline import rewrite
from tfmp.converters.shared.sessions import cpu_session


@dataclass(frozen=True)
class Sample:
    """A float32 model and inputs of it."""

    model: onnx.ModelProto
    batch: dict[str, np.ndarray]


Peer = Callable[[onnx.ModelProto], onnx.ModelProto]


@dataclass(frozen=True)
class Pass:
    """One way to make a model FP16.

    Attributes:
        convert: the model in memory to the result in memory.
        to_file: a float32 file to an FP16 file that is known to be valid, with the seconds of all
            of it: loaded, converted, through ONNX's full check, opened by ONNX Runtime, written.
    """

    convert: Callable[[Sample], onnx.ModelProto]
    to_file: Callable[[Path, Path, Sample], float]


def copied(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy, for passes that change what they are given."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def _ours(convert: Callable[[ir.Model, Sample], ir.Model]) -> Pass:
    def run(sample: Sample) -> onnx.ModelProto:
        return ir.to_proto(convert(ir.from_proto(sample.model), sample))

    def to_file(path: Path, output: Path, sample: Sample) -> float:
        start = time.process_time()
        save_checked(convert(ir.load(path), sample), output)
        return time.process_time() - start

    return Pass(run, to_file)


def _theirs(convert: Peer) -> Pass:
    def run(sample: Sample) -> onnx.ModelProto:
        return convert(copied(sample.model))

    def to_file(path: Path, output: Path, sample: Sample) -> float:
        start = time.process_time()
        _prove(convert(onnx.load(path)), output)
        return time.process_time() - start

    return Pass(run, to_file)


def _prove(model: onnx.ModelProto, output: Path) -> None:
    """What this project's `save_checked` does, for a protobuf."""
    onnx.checker.check_model(model, full_check=True)
    content = model.SerializeToString()
    cpu_session(content)
    output.write_bytes(content)


def _tfmp(model: ir.Model, sample: Sample) -> ir.Model:
    return to_fp16(model, edges={})[0]


def _tfmp_mixed(model: ir.Model, sample: Sample) -> ir.Model:
    prepare(model)
    rewritten = rewrite(model)
    name_nodes(model)
    found = find_islands(model, [(sample.batch, None)], DriftBudget(), edges={})
    return to_fp16(model, keep_nodes=found.islands, rewritten=rewritten, edges={})[0]


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

    def convert(self, sample: Sample) -> onnx.ModelProto:
        """What the worker makes of the model."""
        return self._timed(sample)[0]

    def _timed(self, sample: Sample) -> tuple[onnx.ModelProto, float]:
        """The same, with the worker's own time: without loading and writing."""
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

    def to_file(self, path: Path, output: Path, sample: Sample) -> float:
        """The pass, and what comes behind it; the worker loads the file in it."""
        converted, seconds = self._timed(sample)
        start = time.process_time()
        _prove(converted, output)
        return seconds + time.process_time() - start

    def close(self) -> None:
        """Ends the worker."""
        self._process.communicate()


def all_passes(stack: contextlib.ExitStack, modelopt: str | None) -> dict[str, Pass]:
    """The passes by name, this project's two first.

    Args:
        stack: ends AutoCast's process.
        modelopt: the Python of the environment with ModelOpt, or None.
    """
    passes = {"tfmp": _ours(_tfmp), "tfmp mixed": _ours(_tfmp_mixed)}
    if importlib.util.find_spec("onnxconverter_common") is None:
        sys.exit("onnxconverter-common is not installed: pip install onnxconverter-common")
    for name, peer in PEERS.items():
        passes[name] = _theirs(peer)
    if modelopt:
        autocast = AutoCast(modelopt)
        stack.callback(autocast.close)
        passes["AutoCast"] = Pass(autocast.convert, autocast.to_file)
    else:
        print("AutoCast is left out: --modelopt names no Python", file=sys.stderr)
    return passes

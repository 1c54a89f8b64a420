"""Writes docs/fp16-onnx-peers.md: this FP16 pass beside onnxconverter-common's and ONNX Runtime's.

Each model of the corpus is exported once to float32 ONNX. Every pass gets the same file; what
comes out is checked with ONNX's full check, loaded and run in ONNX Runtime, its casts counted and
its FP16 arithmetic emulated.

Run: pip install onnxconverter-common; python benchmarks/fp16_peers.py [--nodes] [--resnet]
"""

import argparse
import contextlib
import io
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

import backend_nodes
import keras
import keras_models
import numpy as np
import onnx
import onnx_ir as ir

from tfmp.converters.intake import open_source
from tfmp.converters.onnx.emulate import emulated
from tfmp.converters.onnx.export import export_onnx
from tfmp.converters.onnx.fp16 import prepare, to_fp16
from tfmp.converters.sessions import cpu_session
from tfmp.converters.tensors import synthetic_batch

Pass = Callable[[onnx.ModelProto], onnx.ModelProto]


def ours(model: onnx.ModelProto) -> onnx.ModelProto:
    """This project's pass."""
    return ir.to_proto(to_fp16(ir.from_proto(model))[0])


def onnxconverter_common(model: onnx.ModelProto) -> onnx.ModelProto:
    """Microsoft's pass, inputs and outputs kept."""
    from onnxconverter_common import float16

    return float16.convert_float_to_float16(model, keep_io_types=True)


def onnxruntime_transformers(model: onnx.ModelProto) -> onnx.ModelProto:
    """ONNX Runtime's fork of it."""
    from onnxruntime.transformers import float16

    return float16.convert_float_to_float16(model, keep_io_types=True)


PASSES: dict[str, Pass] = {
    "tfmp": ours,
    "onnxconverter-common": onnxconverter_common,
    "onnxruntime.transformers": onnxruntime_transformers,
}


@dataclass(frozen=True)
class Result:
    """One pass on one model: a fault, or casts, bytes, seconds and emulated drift."""

    fault: str = ""
    casts: int = 0
    size: int = 0
    seconds: float = 0.0
    drift: float = 0.0

    def __str__(self) -> str:
        if self.fault:
            return f"no: {self.fault}"
        return f"{self.casts} casts, {self.size / 1e3:,.0f} kB, {self.drift:.1e}"


def casts(model: onnx.ModelProto) -> int:
    """Cast nodes, in bodies too."""
    return sum(node.op_type == "Cast" for node in ir.from_proto(model).graph.all_nodes())


def measure(convert: Pass, model: onnx.ModelProto, batch: dict[str, np.ndarray]) -> Result:
    """Converts a copy, checks, loads, runs and emulates it."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    stage = "fails"
    try:
        with quiet():
            start = time.perf_counter()
            converted = convert(copy)
            seconds = time.perf_counter() - start
            stage = "invalid"
            onnx.checker.check_model(converted, full_check=True)
            onnx.shape_inference.infer_shapes(converted, check_type=True, strict_mode=True)
            stage = "does not load"
            names = [value.name for value in model.graph.output]
            cpu_session(converted.SerializeToString()).run(names, batch)
            expected = cpu_session(model.SerializeToString()).run(names, batch)
            stage = "cannot be emulated"
            wide = ir.from_proto(converted)
            prepare(wide)
            proto = ir.to_proto(emulated(wide))
            received = cpu_session(proto.SerializeToString()).run(names, batch)
    except Exception as error:
        return Result(fault=f"{stage} ({type(error).__name__})")
    drift = max(relative(e, r) for e, r in zip(expected, received, strict=True))
    return Result("", casts(converted), len(converted.SerializeToString()), seconds, drift)


def relative(expected: np.ndarray, received: np.ndarray) -> float:
    """Relative L2 distance; infinite where finite values were lost."""
    if not np.array_equal(np.isfinite(expected), np.isfinite(received)):
        return float("inf")
    error = np.subtract(expected, received, dtype=np.float64)
    return float(np.linalg.norm(error) / max(np.linalg.norm(expected), 1e-30))


@contextlib.contextmanager
def quiet():
    """Hides what the passes print."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield


def corpus() -> dict[str, tuple[onnx.ModelProto, dict[str, np.ndarray]]]:
    """The Keras models of the tests as float32 ONNX, with a seeded batch each."""
    found = {}
    for name, build in keras_models.CORPUS.items():
        source = open_source(build())
        model = ir.to_proto(export_onnx(source))
        found[name] = model, synthetic_batch(source.inputs, samples=2, seed=0)
    return found


def node_counts() -> dict[str, Counter]:
    """ONNX's backend node tests, counted by what became of them."""
    counts: dict[str, Counter] = {}
    cases = backend_nodes.cases()
    for name, convert in PASSES.items():
        with quiet():
            counts[name] = Counter(
                backend_nodes.outcome(case, None if convert is ours else convert).result
                for case in cases
            )
    return counts


def resnet_seconds() -> dict[str, float]:
    """The best of three passes over ResNet50."""
    keras.utils.set_random_seed(0)
    source = open_source(keras.applications.ResNet50(weights=None))
    exported = export_onnx(source)
    proto = ir.to_proto(exported)
    best: dict[str, float] = {}
    for name, convert in PASSES.items():
        for _ in range(3):
            copy = onnx.ModelProto()
            copy.CopyFrom(proto)
            clone = exported.clone()
            with quiet():
                start = time.perf_counter()
                # As in a conversion: ours works on the graph in memory, the peers on protobuf.
                to_fp16(clone) if convert is ours else convert(copy)
                seconds = time.perf_counter() - start
            best[name] = min(seconds, best.get(name, seconds))
    return best


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", action="store_true", help="also the backend node tests")
    parser.add_argument("--resnet", action="store_true", help="also time the passes on ResNet50")
    options = parser.parse_args()
    lines = [
        "# FP16 passes compared",
        "",
        "Written by `python benchmarks/fp16_peers.py --nodes --resnet`. Valid means: ONNX's full "
        "check with strict types, and ONNX Runtime loads and runs it. The last figure of a cell is "
        "the emulated drift (relative L2) from float32. onnxruntime.transformers puts casts behind "
        "the nodes that read them, which ONNX's check refuses as not topologically sorted.",
        "",
        f"onnx {onnx.__version__}; one row a model of `tests/support/keras_models.py`.",
        "",
        "| model | " + " | ".join(PASSES) + " |",
        "| --- |" + " --- |" * len(PASSES),
    ]
    for name, (model, batch) in corpus().items():
        cells = [str(measure(convert, model, batch)) for convert in PASSES.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    if options.nodes:
        kinds = ("fp16", "fp32", "no float32", "failed", "not run", "invalid")
        lines += ["", "## ONNX's backend node tests", "", _NODES, ""]
        lines += ["| pass | " + " | ".join(kinds) + " |", "| --- |" + " ---: |" * len(kinds)]
        for name, counts in node_counts().items():
            lines.append(f"| {name} | " + " | ".join(str(counts[kind]) for kind in kinds) + " |")
    if options.resnet:
        lines += [
            "",
            "## Time on ResNet50",
            "",
            "| pass | seconds, best of three |",
            "| --- | ---: |",
        ]
        lines += [f"| {name} | {seconds:.2f} |" for name, seconds in resnet_seconds().items()]
    text = "\n".join(lines) + "\n"
    (ROOT / "docs" / "fp16-onnx-peers.md").write_text(text)
    print(text)


_NODES = (
    'Every single-operator model that the `onnx` package brings along. "fp16": converted, valid, '
    "run, and its emulated output is within FP16 tolerance (rtol 1e-2, atol 5e-3 of the largest "
    'value) of ONNX\'s expected one. "fp32": all of it stayed FP32. "no float32": nothing to '
    'convert. "invalid": the original fails ONNX\'s own check. What fails with tfmp is listed by '
    "name and cause in `tests/converters/onnx/test_backend_nodes.py`."
)


if __name__ == "__main__":
    main()

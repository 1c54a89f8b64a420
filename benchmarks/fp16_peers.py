"""Writes docs/fp16-onnx-peers.md: this FP16 pass beside its peers on the corpus of the tests.

Each model of `tests/support/corpus.py` is brought to float32 ONNX once. Every pass gets the same
file; what comes out is checked with ONNX's full check, loaded and run in ONNX Runtime, its casts
counted and its FP16 arithmetic emulated.

Run: pip install onnxconverter-common; python benchmarks/fp16_peers.py
AutoCast joins where `--modelopt` (or MODELOPT_PYTHON) names the Python of an environment with
`nvidia-modelopt[onnx]`.
"""

import math
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from scaffold import DOCS, distance, parser

PAGE = DOCS / "fp16-onnx-peers.md"

import fp16_passes
import numpy as np
import onnx
import onnx_ir as ir
from corpus import Case, corpus
from fp16_passes import Pass, Sample
from pages import table
from quiet import quiet

from tfmp.converters.intake.source import OnnxSource
from tfmp.converters.onnx.emulation.emulate import emulated
from tfmp.converters.onnx.export.export import export_onnx
from tfmp.converters.onnx.fp16.rewriter import computes_in_half, prepare
from tfmp.converters.shared.sessions import cpu_session

# Seconds between two passes that are the clock's and the machine's, not theirs.
CLOCK_SECONDS = 2e-3
# Drift between two files that is the order of sums: a fiftieth of FP16's rounding.
SAME_DRIFT = 1e-5
# From which float32 file on the page lists each pass.
LARGE_BYTES = 10_000_000


@dataclass(frozen=True)
class Result:
    """One pass on one model.

    Attributes:
        fault: why there is no valid model; else empty.
        casts: Cast nodes of the model, in bodies too.
        size: bytes of the file.
        seconds: from the float32 file to an FP16 file known to be valid, the best of three.
        drift: relative L2 distance of the emulated FP16 model from float32, the worst output.
        changed: constants that are neither the original nor its nearest FP16 number.
        half: FP16 is computed in somewhere.
    """

    fault: str = ""
    casts: int = 0
    size: int = 0
    seconds: float = 0.0
    drift: float = 0.0
    changed: int = 0
    half: bool = True

    def __str__(self) -> str:
        if self.fault:
            return f"no: {self.fault}"
        mark = "†" if self.changed else "" if self.half else " (all FP32)"
        size = f"{self.size / 1e3:,.0f} kB"
        time_ = f"{self.seconds * 1e3:,.0f} ms"
        return f"{self.casts} casts{mark}, {size}, {time_}, {self.drift:.0e}"


@dataclass(frozen=True)
class Row:
    """All passes on one model.

    Attributes:
        name: of the model.
        size: bytes of the float32 model.
        results: by the name of the pass.
    """

    name: str
    size: int
    results: dict[str, Result]

    def valid(self, name: str) -> Result | None:
        """The result of a pass, if it made a valid model that computes the same function."""
        result = self.results[name]
        return None if result.fault else result


def models(cases: dict[str, Case]) -> Iterator[tuple[str, Sample]]:
    """The corpus as float32 ONNX, with samples."""
    for name, case in cases.items():
        with quiet():
            source = case.open()
            model = source.model if isinstance(source, OnnxSource) else export_onnx(source)
            proto = ir.to_proto(model)
        yield name, Sample(proto, case.batch(source, samples=8))


def to_file(way: Pass, sample: Sample) -> tuple[float, int]:
    """Seconds from file to valid file, the best of three where that is quick, and its size."""
    with tempfile.TemporaryDirectory() as folder:
        original = Path(folder) / "model.onnx"
        original.write_bytes(sample.model.SerializeToString())

        output = Path(folder) / "fp16.onnx"
        seconds = way.to_file(original, output, sample)
        for _ in range(2 if seconds < 1 else 0):
            seconds = min(seconds, way.to_file(original, output, sample))
        return seconds, output.stat().st_size


def measure(way: Pass, sample: Sample) -> Result:
    """Converts, checks, loads, runs and emulates."""
    model, batch = sample.model, sample.batch
    stage = "fails"
    try:
        with quiet():
            converted = way.convert(sample)
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
            half = computes_in_half(wide)
            proto = ir.to_proto(emulated(wide))
            received = cpu_session(proto.SerializeToString()).run(names, batch)
            stage = "gives no file"
            seconds, size = to_file(way, sample)
    except Exception as error:  # whatever a pass, the checker or ONNX Runtime raises
        return Result(fault=f"{stage} ({type(error).__name__})")
    drift = distance(expected, received)
    drift = math.inf if math.isnan(drift) else drift
    changed = changed_constants(model, converted)
    return Result("", casts(converted), size, seconds, drift, changed, half)


def casts(model: onnx.ModelProto) -> int:
    """Cast nodes, in bodies and functions too."""
    loaded = ir.from_proto(model)
    graphs = [loaded.graph, *(function.graph for function in loaded.functions.values())]
    return sum(node.op_type == "Cast" for graph in graphs for node in graph.all_nodes())


def changed_constants(before: onnx.ModelProto, after: onnx.ModelProto) -> int:
    """Constants of the same name whose values a pass has replaced, as by clamping them."""
    originals = _constants(before)
    count = 0
    for name, array in _constants(after).items():
        if array.dtype != np.float16 or name not in originals:
            continue
        with np.errstate(over="ignore", under="ignore"):
            rounded = originals[name].astype(np.float16)
        count += not np.array_equal(array, rounded, equal_nan=True)
    return count


def _constants(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            tensors[node.output[0]] = node.attribute[0].t
    wanted = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)
    return {
        name: onnx.numpy_helper.to_array(tensor)
        for name, tensor in tensors.items()
        if tensor.data_type in wanted
    }


# What a reader compares, as a number that should be small.
COLUMNS = {
    "casts": lambda result: result.casts,
    "size": lambda result: result.size,
    "time to a valid file": lambda result: result.seconds,
    "drift": lambda result: result.drift,
}


# What is the clock's, and the length of names, and no merit.
SLACK = {"time to a valid file": CLOCK_SECONDS, "size": 500, "drift": SAME_DRIFT}


def leads(row: Row, name: str, column: str, rivals: list[str]) -> bool:
    """Whether no rival's valid model has less of what the column counts."""
    own = row.valid(name)
    if own is None:
        return False
    value = COLUMNS[column]
    others = [row.valid(rival) for rival in rivals if rival != name]
    if column == "casts":  # a model with other constants, or all in FP32, may need no cast
        others = [other for other in others if other and not other.changed and other.half]
    if column == "drift":  # what is kept in FP32 drifts less, and is larger
        others = [other for other in others if other and other.size <= own.size + SLACK["size"]]
    return all(value(own) <= value(other) + SLACK.get(column, 0) for other in others if other)


def summary(rows: list[Row], names: list[str]) -> str:
    """A row for each pass: on how many models it is valid and leads."""
    heading = ["pass", f"valid, of {len(rows)}", *(f"leads: {column}" for column in COLUMNS)]
    lines = [[*heading, "constants changed"]]
    for name in names:
        found = [result for row in rows if (result := row.valid(name))]
        won = [str(sum(leads(row, name, column, names) for row in rows)) for column in COLUMNS]
        changed = sum(result.changed for result in found)
        lines.append([name, str(len(found)), *won, str(changed)])
    return table(lines)


def page(rows: list[Row], names: list[str], command: str) -> list[str]:
    """The page, line by line."""
    return [
        "# FP16 passes compared",
        "",
        f"Written by `{command}` with onnx {onnx.__version__}. {_INTRODUCTION}",
        "",
        summary(rows, names),
        "",
        f"What each pass makes of models of {LARGE_BYTES / 1e6:g} MB and more in float32: casts "
        "(† with constants changed), size, time to a valid file, drift.",
        "",
        table(
            [
                ["model", *names],
                *(
                    [row.name, *(str(row.results[name]) for name in names)]
                    for row in rows
                    if row.size >= LARGE_BYTES
                ),
            ]
        ),
    ]


def main() -> None:
    """Measures and writes."""
    given = parser(__doc__)
    given.add_argument("--modelopt", default=os.environ.get("MODELOPT_PYTHON"))
    given.add_argument("--quick", action="store_true", help="leave out what takes minutes")
    given.add_argument("--models", default="", help="only these, separated by commas; no page")
    options = given.parse_args()
    wanted = set(filter(None, options.models.split(",")))
    found = corpus(slow=not options.quick)
    cases = {name: case for name, case in found.items() if not wanted or name in wanted}
    with ExitStack() as stack:
        passes = fp16_passes.all_passes(stack, options.modelopt)
        rows = []
        for count, (name, sample) in enumerate(models(cases)):
            if not count:  # what loads on first use is no part of any pass
                for way in passes.values():
                    measure(way, sample)
            results = {key: measure(way, sample) for key, way in passes.items()}
            rows.append(Row(name, sample.model.ByteSize(), results))
            print(name, *(f"{key}: {result}" for key, result in results.items()), sep=" | ")
            sys.stdout.flush()
        lines = page(rows, list(passes), " ".join(["python", *sys.argv]))
    text = "\n".join(lines) + "\n"
    if not wanted:
        PAGE.write_text(text)
    print(text)


_INTRODUCTION = (
    "The models are those of `tests/support/corpus.py`, and trained ones if `TFMP_ZOO` names "
    "their folder. A model is valid if it passes ONNX's full check with strict types, and ONNX "
    "Runtime loads and runs it. A pass leads on a model if no rival's valid model has less, and "
    "in drift if none of at most its size has. The time to a valid file includes loading, the "
    "check and writing; it is processor time, the best of three. Drift is the emulated relative "
    f"L2 of the worst output; drifts within {SAME_DRIFT:g} and times within "
    f"{CLOCK_SECONDS * 1e3:g} ms are equal. Constants changed: beyond rounding, such as an "
    "epsilon of 1e-12 to 1e-7. `tfmp mixed` and AutoCast (NVIDIA ModelOpt) see eight samples. "
    "onnxruntime.transformers puts casts behind the nodes that read them, which ONNX's check "
    "refuses."
)

if __name__ == "__main__":
    main()

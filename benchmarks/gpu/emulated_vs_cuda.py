"""How well the emulator foretells a GPU: drift on CUDA beside drift emulated, model by model.

Each model of the tests' corpus becomes a float32 and an FP16 ONNX file. Both run on ONNX Runtime's
CUDA provider, TF32 off, so that the float32 file is the reference of all; the FP16 file is also
emulated, profile by profile, on the CPU. One table tells the drift of each, the emulated drift as a
multiple of the real one, and on how many values they agree whether the value is finite.

Run: python benchmarks/gpu/emulated_vs_cuda.py             (needs an NVIDIA GPU; see README.md here)
"""

import argparse
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))

import numpy as np
from corpus import Case, corpus

from tfmp.converters.drift.metrics import OutputAccumulator
from tfmp.converters.formats import format_named
from tfmp.converters.intake.source import OnnxSource
from tfmp.converters.onnx.emulation.profiles import Profile
from tfmp.converters.onnx.export.export import export_onnx
from tfmp.converters.onnx.fp16.rewriter import to_fp16
from tfmp.converters.onnx.graph.storage import save_checked
from tfmp.converters.runners import CudaRunner, Runner, onnx_runner
from tfmp.converters.shared.errors import ConversionError, RunnerError
from tfmp.converters.shared.tensors import Batch

PROFILES = ("gpu", "pessimistic")
CPU_PROVIDER = "CPUExecutionProvider"
NO_GPU = """\
emulated_vs_cuda: expected an NVIDIA GPU that ONNX Runtime's CUDA provider can use, but {problem}.
On a machine with one: pip install '.[cuda,test]', then run this again (benchmarks/gpu/README.md).
--plumbing tries the script on the CPU provider; the "real" drift is not a GPU's then.
"""


@dataclass(frozen=True)
class Emulated:
    """What one profile foretold.

    Attributes:
        drift: relative L2 distance from the float32 reference, of the worst output.
        agree: values that are finite in both or in neither.
        left: op types whose sums stayed in FP32 though the profile holds them in FP16.
    """

    drift: float
    agree: int
    left: str = ""


@dataclass(frozen=True)
class Row:
    """One model.

    Attributes:
        name: of the model.
        fault: why it could not be compared; else empty.
        real: drift of the FP16 file on the device.
        values: how many the outputs hold.
        nonfinite: how many of them are not finite on the device.
        emulated: by profile.
        fell_back: op types that ran elsewhere than on the device.
    """

    name: str
    fault: str = ""
    real: float = 0.0
    values: int = 0
    nonfinite: int = 0
    emulated: dict[str, Emulated] = field(default_factory=dict)
    fell_back: str = ""

    def ratio(self, profile: str) -> float | None:
        """Emulated drift as a multiple of the real one, where both are finite and not zero."""
        foretold = self.emulated[profile].drift
        if not (math.isfinite(foretold) and math.isfinite(self.real) and self.real and foretold):
            return None
        return foretold / self.real


def compare(case: Case, folder: Path, samples: int, provider: dict[str, str]) -> Row:
    """Converts a model, runs both files on the device and the FP16 one emulated."""
    full, half = folder / "full.onnx", folder / "half.onnx"
    try:
        source = case.open()
        model = source.model if isinstance(source, OnnxSource) else export_onnx(source)
        save_checked(model, full)
        converted, report = to_fp16(model.clone())
        if not report.fp16_nodes:
            return Row(case.name, "nothing computes in FP16")
        save_checked(converted, half)
        batch = case.batch(source, samples)
        with CudaRunner(full, **provider) as runner:
            expected = runner.run(batch)
        with CudaRunner(half, **provider) as runner:
            received = runner.run(batch)
            proof = runner.info.details["proof"]
        emulated = {name: emulate(half, name, batch, expected, received) for name in PROFILES}
    except (ConversionError, RunnerError) as error:
        return Row(case.name, str(error).splitlines()[0])
    floats = [value for value in received.values() if value.dtype.kind == "f"]
    return Row(
        case.name,
        real=drift(expected, received),
        values=sum(value.size for value in floats),
        nonfinite=sum(int(np.sum(~np.isfinite(value))) for value in floats),
        emulated=emulated,
        fell_back=proof.partition(":")[0] if "fell back" in proof else "",
    )


def emulate(half: Path, profile: str, batch: Batch, expected: Batch, real: Batch) -> Emulated:
    """Runs the FP16 file emulated."""
    runner: Runner = onnx_runner(half, Profile.parse(profile))
    with runner:
        received = runner.run(batch)
    agree = sum(
        int(np.sum(np.isfinite(value) == np.isfinite(received[name])))
        for name, value in real.items()
        if value.dtype.kind == "f"
    )
    left = runner.info.details.get("in FP32 inside", "")
    return Emulated(drift(expected, received), agree, left)


def drift(expected: Batch, received: Batch) -> float:
    """Relative L2 of the worst output; infinite where a value is finite on one side only."""
    worst = 0.0
    for name, reference in expected.items():
        if reference.dtype.kind == "f" and reference.ndim:
            accumulator = OutputAccumulator(name)
            accumulator.update(reference, received[name])
            worst = max(worst, accumulator.result().rel_l2 or 0.0)
    return worst


def table(rows: Sequence[Row]) -> str:
    """The rows as one Markdown table."""
    heads = [f"{name} | ratio | finite alike" for name in PROFILES]
    lines = [
        f"| model | real drift | {' | '.join(heads)} | not finite | ran elsewhere |",
        "| --- | ---: |" + " ---: |" * (3 * len(PROFILES) + 1) + " --- |",
    ]
    for row in rows:
        if row.fault:
            lines.append(f"| {row.name} | not compared: {row.fault} |")
            continue
        cells = [row.name, f"{row.real:.2e}"]
        for name, found in row.emulated.items():
            ratio = row.ratio(name)
            cells += [f"{found.drift:.2e}" + ("*" if found.left else "")]
            cells += ["" if ratio is None else f"{ratio:.2f}", f"{found.agree} of {row.values}"]
        lines.append(f"| {' | '.join([*cells, str(row.nonfinite), row.fell_back])} |")
    return "\n".join(lines)


def summary(rows: Sequence[Row]) -> str:
    """What all models say of each profile."""
    compared = [row for row in rows if not row.fault]
    lines = []
    for name in PROFILES:
        ratios = [ratio for row in compared if (ratio := row.ratio(name)) is not None]
        alike = sum(row.emulated[name].agree == row.values for row in compared)
        spread = "no model has a drift to compare"
        if ratios:
            spread = (
                f"emulated / real: median {statistics.median(ratios):.2f}, "
                f"from {min(ratios):.2f} to {max(ratios):.2f}"
            )
        lines.append(
            f"{name}: {spread}; all values finite alike in {alike} of {len(compared)} models"
        )
    left = sorted({row.emulated["pessimistic"].left for row in compared} - {""})
    if left:
        lines.append(f"* sums left in FP32: {', '.join(left)}")
    return "\n".join(lines)


def main() -> int:
    """Prints the table; 2 without a GPU."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", help="names of the corpus, separated by commas")
    parser.add_argument("--groups", default="keras onnx applications zoo", help="of the corpus")
    parser.add_argument("--slow", action="store_true", help="also models that take minutes")
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument(
        "--plumbing", action="store_true", help="the CPU provider in the GPU's place: no figures"
    )
    options = parser.parse_args()
    provider: dict[str, str] = {}
    if options.plumbing:
        provider = {"provider": CPU_PROVIDER, "device": "CPU"}
        print("PLUMBING ONLY: the CPU provider stands in for the GPU and hides FP16 arithmetic.\n")
    elif (problem := format_named("onnx").gpu_problem()) is not None:
        print(NO_GPU.format(problem=problem), file=sys.stderr)
        return 2
    cases = corpus(options.slow, options.groups)
    wanted = options.models.split(",") if options.models else list(cases)
    unknown = [name for name in wanted if name not in cases]
    if unknown:
        print(f"no model {', '.join(unknown)}; there are: {', '.join(cases)}", file=sys.stderr)
        return 2
    rows = []
    for name in wanted:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(compare(cases[name], Path(folder), options.samples, provider))
        print(f"{len(rows)} of {len(wanted)}: {name}", file=sys.stderr, flush=True)
    print(f"{table(rows)}\n\n{summary(rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

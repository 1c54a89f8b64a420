"""Writes docs/tflite-support.md: what converts to FP16 TFLite, and how it runs.

Every row of tests/support/sweep.py, and every model of the folder that TFMP_ZOO names, is converted
with FP16 weights and run in LiteRT on a seeded batch: on the CPU by default, on the CPU forced to
compute in FP16, and on the GPU where a Vulkan adapter is found (SwiftShader counts). The numbers
are relative L2 distances from the original in float32.

Run: python benchmarks/tflite_table.py
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

import keras
import numpy as np
import sweep

from tfmp.converters import open_source
from tfmp.converters.errors import ConversionError, InputError, RunnerError
from tfmp.converters.runners import LiteRTGpuRunner, LiteRTRunner, Runner
from tfmp.converters.source import Source
from tfmp.converters.tensors import Batch, synthetic_batch
from tfmp.converters.tflite.export import TFLiteFile, export_tflite, start_converter
from tfmp.converters.tflite.vulkan import find_vulkan
from tfmp.converters.worker import Worker

PAGE = ROOT / "docs" / "tflite-support.md"
MODES = ("default", "forced FP16", "GPU")


@dataclass(frozen=True)
class Line:
    """One row of the table; `drift` by mode, or what went wrong there."""

    group: str
    name: str
    drift: dict[str, str]
    size_ratio: str
    whole_on_gpu: str

    def __str__(self) -> str:
        drift = [self.drift.get(mode, "") for mode in MODES]
        return " | ".join(["", self.name, *drift, self.size_ratio, self.whole_on_gpu, ""]).strip()


def run_row(group: str, name: str, model: object, folder: Path, converter: Worker) -> Line:
    """Converts and runs one model."""
    try:
        source = open_source(model)
        file = export_tflite(source, folder / "fp16.tflite", converter=converter)
        full = export_tflite(source, folder / "fp32.tflite", "fp32", converter=converter)
    except (ConversionError, InputError) as error:
        return Line(group, name, {"default": f"no: {first_words(str(error))}"}, "", "")
    return measured(group, name, source, file, full)


def measured(group: str, name: str, source: Source, file: TFLiteFile, full: TFLiteFile) -> Line:
    batch = synthetic_batch(source.inputs, 2, seed=0)
    try:
        expected = source.forward(batch)
    except Exception as error:  # TensorFlow's CPU lacks grouped 3-D convolutions, for one
        return Line(group, name, {"default": f"no reference: {first_words(str(error))}"}, "", "")
    drift, whole = {}, ""
    for mode in MODES:
        try:
            with open_mode(file.path, mode) as runner:
                drift[mode] = distance(expected, runner.run(batch))
                if mode == "GPU":
                    whole = "yes" if runner.info.details["accelerated"].startswith("every") else ""
        except RunnerError as error:
            drift[mode] = first_words(str(error))
    weights = max(full.sizes.fp32_bytes, 1)
    ratio = f"{file.sizes.fp16_bytes / weights:.2f}" if full.sizes.fp32_bytes else "no weights"
    return Line(group, name, drift, ratio, whole)


def open_mode(path: Path, mode: str) -> Runner:
    if mode == "GPU":
        return LiteRTGpuRunner(path)
    return LiteRTRunner(path, force_fp16=mode == "forced FP16")


def distance(expected: Batch, received: Batch) -> str:
    """The worst output's relative L2 distance; what is not finite in the original is left out."""
    worst = 0.0
    for name, wanted in expected.items():
        got = received[name]
        if wanted.dtype.kind not in "fc":
            if not np.array_equal(wanted, got):
                return "differs"
            continue
        finite = np.isfinite(wanted)
        if not np.isfinite(got[finite]).all():
            return "not finite"
        error = got[finite].astype(np.float64) - wanted[finite]
        norm = float(np.linalg.norm(wanted[finite].astype(np.float64)))
        worst = max(worst, float(np.linalg.norm(error)) / norm if norm else float(error.any()))
    return f"{worst:.0e}" if worst else "0"


def first_words(text: str) -> str:
    """A reason short enough for a cell."""
    reason = text.partition("': ")[2] or text
    return reason.replace("|", "/").replace("\n", " ").partition(". ")[0][:90]


def rows() -> Iterator[tuple[str, str, object]]:
    for row in sweep.all_rows():
        if row.group != "applications":
            yield row.group, row.name, row.build
    zoo = os.environ.get("TFMP_ZOO")
    for path in sorted(Path(zoo).iterdir()) if zoo else ():
        if path.suffix == ".h5" or path.is_dir():
            yield "trained models", path.name, lambda path=path: path


def adapter() -> str:
    try:
        with find_vulkan() as found:
            return str(found.adapter)
    except RunnerError as error:
        return f"none ({error})"


def page(lines: list[Line]) -> str:
    from importlib.metadata import version

    versions = ", ".join(
        f"{name} {version(name)}" for name in ("tensorflow", "keras", "ai-edge-litert")
    )
    text = [
        "# What converts to FP16 TFLite",
        "",
        f"Written by `benchmarks/tflite_table.py` with {versions}; GPU adapter: {adapter()}.",
        "",
        "Numbers are relative L2 distances from the original in float32, on a seeded batch of two.",
        "*default* is LiteRT's CPU path, which computes in FP32; *forced FP16* is that in FP16",
        "arithmetic; *GPU* is LiteRT's WebGPU path. *Weights* is the size of the float constants",
        "against float32. *All on GPU* says that a GPU takes every operator.",
    ]
    for group in dict.fromkeys(line.group for line in lines):
        own = [line for line in lines if line.group == group]
        good = sum(not line.drift["default"].startswith("no") for line in own)
        text += [
            "",
            f"## {group[0].upper()}{group[1:]}: {good} of {len(own)}",
            "",
            "| Model | default | forced FP16 | GPU | Weights | All on GPU |",
            "|---|---|---|---|---|---|",
            *map(str, own),
        ]
    return "\n".join(text) + "\n"


def main() -> None:
    lines = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        converter = stack.enter_context(start_converter())
        for count, (group, name, build) in enumerate(rows(), 1):
            if count % 100 == 0:  # each conversion leaks memory in the converter's process
                converter = stack.enter_context(start_converter())
            keras.utils.clear_session()
            try:
                model = build()
            except Exception as error:
                print(f"{group}: {name}: cannot be built: {error}", file=sys.stderr)
                continue
            line = run_row(group, name, model, folder, converter)
            lines.append(line)
            print(f"{group}: {line}", file=sys.stderr, flush=True)
    PAGE.write_text(page(lines))


if __name__ == "__main__":
    main()

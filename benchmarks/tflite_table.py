"""Writes docs/tflite-support.md and its table: what converts to FP16 TFLite, and how it runs.

Every Keras model of the corpus (tests/support/corpus.py, the zoo where TFMP_ZOO names it) and every
layer, activation and op of tests/support/sweep.py is converted with FP16 weights and run in LiteRT
on a seeded batch: on the CPU by default, on the CPU forced to compute in FP16, and on the GPU where
a Vulkan adapter is found (SwiftShader counts). Where forced FP16 goes wrong, the model is repaired
on the same batch and converted once more.

Run: python benchmarks/tflite_table.py (about half an hour)
"""

import math
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from scaffold import DOCS, distance, first_words, versions

PAGE = DOCS / "tflite-support.md"

import keras
import sweep
from corpus import corpus
from pages import write_page

from tfmp.converters import open_source
from tfmp.converters.intake.source import Source
from tfmp.converters.runners import Runner, litert_vulkan
from tfmp.converters.runners.litert import LiteRTGpuRunner, LiteRTRunner
from tfmp.converters.shared.errors import ConversionError, InputError, RunnerError
from tfmp.converters.shared.tensors import Batch, synthetic_batch
from tfmp.converters.shared.worker import Worker
from tfmp.converters.tflite.export.export import export_tflite, start_converter
from tfmp.converters.tflite.file import TFLiteModel
from tfmp.converters.tflite.rewriting.repair import repair_model

DEFAULT, FORCED, GPU = "default CPU", "forced FP16", "GPU"
MODES = (DEFAULT, FORCED, GPU)
# Past this, forced FP16 has lost more than digits, and a repair is tried.
WRONG = 0.02
# Each conversion leaks memory in the converter's process.
CONVERSIONS_PER_PROCESS = 100

Opened = tuple[Source, Batch]


@dataclass(frozen=True)
class Row:
    """What is to be measured; `sized` rows have enough weights for a size to mean something."""

    group: str
    name: str
    open: Callable[[], Opened]
    sized: bool


@dataclass(frozen=True)
class Line:
    """One measured row: drift by mode, or why it could not be converted.

    Attributes:
        refused: the message; "" where there is a file.
        flex: TensorFlow ops that the file needs; none in a file that was not refused.
        drift: by mode, the relative L2 distance or what went wrong.
        repaired: drift under forced FP16 after a repair; "" where none was tried.
        ratio: file size against the float32 file.
        on_gpu: whether the GPU takes every operator.
    """

    group: str
    name: str
    refused: str = ""
    flex: str = ""
    drift: dict[str, str] = field(default_factory=dict)
    repaired: str = ""
    ratio: str = ""
    on_gpu: str = ""

    def __str__(self) -> str:
        if self.refused:
            return f"| {TITLES[self.group]} | {self.name} | {self.refused} |  |  |  |  |  |  |"
        drift = " | ".join(self.drift.get(mode, "") for mode in MODES)
        cells = (self.name, self.flex or "none", drift, self.repaired, self.ratio, self.on_gpu)
        return f"| {TITLES[self.group]} | {' | '.join(cells)} |"


def measure(row: Row, folder: Path, converter: Worker) -> Line:
    """Converts and runs one model."""
    try:
        source, batch = row.open()
        file = export_tflite(source, folder / "fp16.tflite", converter=converter)
    except (ConversionError, InputError) as error:
        return Line(row.group, row.name, refused=first_words(str(error)))
    line = Line(row.group, row.name, flex=", ".join(TFLiteModel(file.path).flex_ops))
    if row.sized:
        full = export_tflite(source, folder / "fp32.tflite", "fp32", converter=converter)
        ratio = f"{file.path.stat().st_size / full.path.stat().st_size:.2f}"
        line = replace(line, ratio=ratio)
    try:
        return compared(line, file.path, source, batch, converter)
    except OneByOne:  # its outputs are of the whole batch
        batch = {name: array[:1] for name, array in batch.items()}
        return compared(line, file.path, source, batch, converter)


class OneByOne(Exception):
    """Samples that a runner cannot feed piece by piece."""


def compared(line: Line, path: Path, source: Source, batch: Batch, converter: Worker) -> Line:
    """Runs a file in every mode, and its repair where that is needed."""
    expected = source.forward(batch)
    drift, on_gpu = {}, ""
    for mode in MODES:
        drift[mode], info = run(path, mode, batch, expected)
        if mode == GPU and info:
            on_gpu = "yes" if info["accelerated"].startswith("every") else "in part"
    repaired = ""
    if is_wrong(drift[FORCED]):
        found = repair_model(source, lambda: [batch])
        if found.changes:
            mended = path.with_name("repaired.tflite")
            export_tflite(found.source, mended, converter=converter)
            repaired, _ = run(mended, FORCED, batch, expected)
    return replace(line, drift=drift, repaired=repaired, on_gpu=on_gpu)


def run(path: Path, mode: str, batch: Batch, expected: Batch) -> tuple[str, dict[str, str]]:
    """Drift or what went wrong, and the runner's details."""
    try:
        with open_mode(path, mode) as runner:
            received = runner.run(batch)
            drift = distance(expected.values(), map(received.__getitem__, expected))
            return cell(drift), runner.info.details
    except RunnerError as error:
        if "cannot be separated" in str(error):
            raise OneByOne from error
        return first_words(str(error)), {}


def open_mode(path: Path, mode: str) -> Runner:
    """The runner of a column."""
    return LiteRTGpuRunner(path) if mode == GPU else LiteRTRunner(path, mode == FORCED)


def is_wrong(drift: str) -> bool:
    """Whether FP16 arithmetic lost more than digits."""
    return drift == "not finite" or (drift[:1].isdigit() and float(drift) > WRONG)


def cell(drift: float) -> str:
    """A distance as the table shows it."""
    if math.isnan(drift):
        return "not finite"
    return "differs" if math.isinf(drift) else f"{drift:.0e}" if drift else "0"


def rows() -> Iterator[Row]:
    """The corpus, then what the sweep has beyond it."""
    for case in corpus(groups="keras applications zoo").values():

        def opened(case: object = case) -> Opened:
            source = case.open()
            return source, case.batch(source)

        yield Row(case.group, case.name, opened, sized=True)
    for one in sweep.all_rows():
        if one.group == "applications":  # the corpus has them
            continue

        def built(one: sweep.Row = one) -> Opened:
            keras.utils.clear_session()
            source = open_source(one.build())
            return source, synthetic_batch(source.inputs, 2, seed=0)

        yield Row(one.group, one.name, built, sized=False)


def measured() -> Iterator[Line]:
    """Every line."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        converter = stack.enter_context(start_converter())
        for done, row in enumerate(rows(), 1):
            if done % CONVERSIONS_PER_PROCESS == 0:
                converter.close()
                converter = stack.enter_context(start_converter())
            try:
                line = measure(row, folder, converter)
            except Exception as error:
                # Keras cannot build or run every model of the sweep; nothing is compared then.
                print(f"{row.group}: {row.name}: {error!r:.300}", file=sys.stderr, flush=True)
                continue
            print(line, file=sys.stderr, flush=True)
            yield line


def adapter() -> str:
    """The GPU that was there."""
    try:
        with litert_vulkan() as found:
            return str(found.adapter)
    except RunnerError as error:
        return f"none ({error})"


TITLES = {
    "keras": "Corpus",
    "applications": "Applications",
    "zoo": "Trained models",
    "layers": "Layers",
    "sequences": "Sequences",
    "activations": "Activations",
    "ops": "Ops",
}


def page(lines: list[Line]) -> str:
    """The page."""
    packages = versions(("tensorflow", "keras", "ai-edge-litert"))
    groups = {
        title: own
        for key, title in TITLES.items()
        if (own := [line for line in lines if line.group == key])
    }
    text = [
        "# Models that convert to FP16 TFLite",
        "",
        f"Written by `python benchmarks/tflite_table.py` with {packages}; GPU: {adapter()}.",
        "",
        "Numbers are relative L2 distances from the original in float32, on a seeded batch of",
        "two samples (or of one sample, if outputs belong to the batch as a whole). *Default",
        "CPU* computes in FP32 with FP16 weights, *forced FP16* computes in FP16, and *GPU* is",
        "LiteRT's WebGPU path, which computes in FP32 if the adapter is software. *After",
        f"`--repair`* is forced FP16 again, for models that were off by more than {WRONG:g} and",
        "that the repair changed. *Size* is the size of the file over the size of the float32",
        "file. If TFLite has no operators for a model, the model is refused with the reason,",
        "and no file is written. Files take one sample at a time; ops that mix samples, such as",
        "a flip of the batch, differ for this reason.",
        "",
        "| | models | converted | need Flex | right on the CPU | right in FP16, with `--repair` |",
        "|---|---:|---:|---:|---:|---:|",
        *(f"| {title} | {summary(own)} |" for title, own in groups.items()),
        "",
        "| Group | Model | Flex | default CPU | forced FP16 | GPU | After `--repair` | Size | "
        "All on GPU |",
        "|---|---|---|---|---|---|---|---|---|",
        *(str(line) for own in groups.values() for line in own),
    ]
    return "\n".join(text) + "\n"


def summary(lines: list[Line]) -> str:
    """The counts of a group."""
    files = [line for line in lines if not line.refused]
    flex = sum(bool(line.flex) for line in files)
    right = sum(is_right(line.drift[DEFAULT]) for line in files)
    half = sum(is_right(line.drift[FORCED]) or is_right(line.repaired) for line in files)
    return f"{len(lines)} | {len(files)} | {flex} | {right} | {half}"


def is_right(drift: str) -> bool:
    """Whether there is a small distance."""
    return drift[:1].isdigit() and float(drift) <= WRONG


def main() -> None:
    """Measures and writes."""
    write_page(PAGE, page(list(measured())))


if __name__ == "__main__":
    main()

"""What comparing costs beyond running the models: samples a second with and without it.

    python benchmarks/compare_throughput.py [--models classifier encoder one_block segmenter]
        [--samples 1024] [--rounds 7]

Each round runs a Keras model and its FP16 ONNX file (arithmetic emulated) over the same batches
twice, in alternating order: bare, and inside a validation's loop, which also checks and hashes the
samples and accumulates every metric. Reported is the median over rounds of the ratio within a
round, of time and of processor time; only the second one means something beside other work. The
goal is at most 1.15.

`classifier` and `encoder` are models, to which the goal applies. `one_block` is the worst case: it
puts out as much as it computes with. What is compared grows with the output.

`segmenter` puts out 512 x 512 pixels of 21 classes for each of 32 samples. It runs in ONNX Runtime
without emulation on both sides, of FP32 and of FP16 weights, with 4 samples at a time. Its peak is
of processes of their own; the goal is at most 1 GB beyond running the models.
"""

import multiprocessing
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scaffold import parser

GOAL = 1.15

import keras
import numpy as np

from tfmp.converters import convert, open_source
from tfmp.converters.drift.compare import Comparison
from tfmp.converters.runners import OnnxRunner, TensorFlowRunner, onnx_runner
from tfmp.converters.samples.data import open_data

BATCH = 32

# Samples of the segmenter.
SEGMENTED = 32


@dataclass(frozen=True)
class Result:
    """One model.

    Attributes:
        bare: samples a second that run through both models.
        compared: samples a second when they are compared as well.
        ratio: median over rounds of the time with comparison over the time without.
        processor_ratio: likewise, of the time of all processors together.
        peak_mib: what comparing adds to the largest size of the process; None where not measured.
    """

    bare: float
    compared: float
    ratio: float
    processor_ratio: float
    peak_mib: float | None = None


def classifier() -> keras.Model:
    """A small convolutional network on 64 x 64 images, 1000 classes."""
    layers = keras.layers
    image = keras.Input((64, 64, 3), name="image")
    hidden = image
    for filters in (32, 64, 128):
        hidden = layers.Conv2D(filters, 3, padding="same", activation="relu")(hidden)
        hidden = layers.MaxPooling2D()(layers.BatchNormalization()(hidden))
    hidden = layers.GlobalAveragePooling2D()(hidden)
    scores = layers.Dense(1000, activation="softmax")(hidden)
    return keras.Model(image, scores, name="classifier")


def encoder() -> keras.Model:
    """Six self-attention blocks on 64 steps of 128 features, all steps put out."""
    return _attention("encoder", blocks=6)


def one_block() -> keras.Model:
    """One such block: an output as large as the work behind it, the worst case."""
    return _attention("one_block", blocks=1)


def _attention(name: str, blocks: int) -> keras.Model:
    layers = keras.layers
    steps = hidden = keras.Input((64, 128), name="steps")
    for _ in range(blocks):
        attended = layers.MultiHeadAttention(4, 32)(hidden, hidden)
        hidden = layers.LayerNormalization()(hidden + attended)
        wide = layers.Dense(512, activation="gelu")(hidden)
        hidden = layers.LayerNormalization()(hidden + layers.Dense(128)(wide))
    return keras.Model(steps, hidden, name=name)


def segmenter() -> keras.Model:
    """A network of 5 GFLOP on 512 x 512 images, 21 classes of each pixel."""
    layers = keras.layers
    image = keras.Input((512, 512, 3), name="image")
    hidden = image
    for filters in (32, 64, 128):
        hidden = layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(hidden)
    for dilation in (1, 2, 4):
        hidden = layers.Conv2D(128, 3, padding="same", activation="relu", dilation_rate=dilation)(
            hidden
        )
    scores = layers.UpSampling2D(8, interpolation="bilinear")(layers.Conv2D(21, 1)(hidden))
    return keras.Model(image, layers.Softmax()(scores), name="segmenter")


def loops(
    source: Any, reference: Any, candidate: Any, data: np.ndarray, batch_size: int = BATCH
) -> tuple[Callable[[], None], Callable[[], None]]:
    """Runs both models over the data, and runs and compares them."""
    (spec,) = source.inputs

    def bare() -> None:
        for start in range(0, len(data), batch_size):
            batch = {spec.name: data[start : start + batch_size]}
            reference.run(batch)
            candidate.run(batch)

    def compared() -> None:
        comparison = Comparison("model.onnx", source.outputs, candidate.outputs, hints=source.hints)
        for batch in open_data(data, source.inputs, batch_size=batch_size).read():
            expected, received = reference.run(batch.inputs), candidate.run(batch.inputs)
            comparison.update(expected, received, batch.labels, batch.keys)
        comparison.outputs()

    return bare, compared


def random_data(source: Any, samples: int) -> np.ndarray:
    """Random input of the model's shape."""
    shape = (samples, *source.inputs[0].shape[1:])
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def timed(samples: int, rounds: int, both: tuple[Callable[[], None], Callable[[], None]]) -> Result:
    """Times both loops over the same samples."""
    bare, compared = both
    bare(), compared()  # warm up
    rounds_of = [_pair(bare, compared, first=index % 2) for index in range(rounds)]
    times, processor = zip(*rounds_of, strict=True)
    return Result(
        samples / statistics.median(one for one, _ in times),
        samples / statistics.median(other for _, other in times),
        *(statistics.median(other / one for one, other in each) for each in (times, processor)),
    )


def measure(model: keras.Model, samples: int, rounds: int) -> Result:
    """Times a Keras model beside its FP16 ONNX file."""
    source = open_source(model)
    with tempfile.TemporaryDirectory() as folder:
        path = convert(source, output=Path(folder, "model.onnx")).path
        candidate = onnx_runner(path)
    with TensorFlowRunner(source) as reference:
        both = loops(source, reference, candidate, random_data(source, samples))
        return timed(samples, rounds, both)


def segmentation(rounds: int) -> Result:
    """Times the segmenter's FP32 and FP16 files, and measures the largest size of each loop."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = segmenter()
        for precision in ("fp32", "fp16"):
            convert(model, "onnx", folder / f"{precision}.onnx", precision)
        bare, compared = (_in_own_process(folder, index) for index in (0, 1))
        found = timed(SEGMENTED, rounds, _segmenter_loops(folder))
    return replace(found, peak_mib=compared - bare)


def _segmenter_loops(folder: Path) -> tuple[Callable[[], None], Callable[[], None]]:
    source = open_source(folder / "fp32.onnx")
    runners = OnnxRunner(folder / "fp32.onnx"), OnnxRunner(folder / "fp16.onnx")
    return loops(source, *runners, random_data(source, SEGMENTED), batch_size=4)


def _peak_mib(folder: Path, index: int) -> float:
    """The largest size of this process behind one of both loops.

    Linux hands `ru_maxrss` on from the process that started this one, and starts VmHWM anew.
    """
    _segmenter_loops(folder)[index]()
    (kib,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(kib) / 1024


def _in_own_process(folder: Path, index: int) -> float:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_peak_mib, folder, index).result()


Pair = tuple[float, float]


def _pair(one: Callable[[], None], other: Callable[[], None], first: int) -> tuple[Pair, Pair]:
    """Seconds of both, in either order, and seconds of all processors."""
    seconds, processor = {}, {}
    for call in (one, other)[:: -1 if first else 1]:
        start, used = time.perf_counter(), time.process_time()
        call()
        seconds[call], processor[call] = time.perf_counter() - start, time.process_time() - used
    return (seconds[one], seconds[other]), (processor[one], processor[other])


MODELS = {made.__name__: made for made in (classifier, encoder, one_block, segmenter)}


def main() -> None:
    """Prints a table."""
    given = parser(__doc__)
    given.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    given.add_argument("--samples", type=int, default=1024)
    given.add_argument("--rounds", type=int, default=7)
    options = given.parse_args()
    print(
        f"{'model':<16}{'run only':>12}{'compared':>12}{'ratio':>8}{'processor':>11}{'peak':>12}"
        f"   goal: at most {GOAL}"
    )
    for name in options.models:
        if name == "segmenter":
            found = segmentation(options.rounds)
        else:
            found = measure(MODELS[name](), options.samples, options.rounds)
        cells = f"{name:<16}{found.bare:>10.1f}/s{found.compared:>10.1f}/s{found.ratio:>8.3f}"
        peak = "" if found.peak_mib is None else f"{found.peak_mib:.0f} MiB"
        print(f"{cells}{found.processor_ratio:>11.3f}{peak:>12}", flush=True)


if __name__ == "__main__":
    main()

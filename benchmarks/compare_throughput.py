"""What comparing costs beyond running the models: samples a second with and without it.

    python benchmarks/compare_throughput.py [--samples 1024] [--rounds 7] [--json FILE]

Each round runs a Keras model and its FP16 ONNX file (arithmetic emulated) over the same batches
twice, in alternating order: bare, and inside a validation's loop, which also checks and hashes the
samples and accumulates every metric. Reported is the median over rounds of the ratio within a
round, of time and of processor time; only the second one means something beside other work. The
goal is at most 1.15.

`classifier` and `encoder` are models, to which the goal applies. `one_block` is the worst case: it
puts out as much as it computes with. What is compared grows with the output, and took 7 to 32 %.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

from tfmp.converters import convert, open_source
from tfmp.converters.drift.compare import Comparison
from tfmp.converters.runners import TensorFlowRunner, onnx_runner
from tfmp.converters.samples.data import open_data

GOAL = 1.15
BATCH = 32


@dataclass(frozen=True)
class Result:
    """One model.

    Attributes:
        model: which.
        bare: samples a second that run through both models.
        compared: samples a second when they are compared as well.
        ratio: median over rounds of the time with comparison over the time without.
        processor_ratio: likewise, of the time of all processors together.
    """

    model: str
    bare: float
    compared: float
    ratio: float
    processor_ratio: float


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


def block() -> keras.Model:
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


def measure(model: keras.Model, samples: int, rounds: int) -> Result:
    """Times both loops over the same samples."""
    source = open_source(model)
    (spec,) = source.inputs
    shape = (samples, *spec.shape[1:])
    data = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = convert(source, output=Path(folder, "model.onnx")).path
        candidate = onnx_runner(path)
    reference = TensorFlowRunner(source)

    def bare() -> None:
        for start in range(0, samples, BATCH):
            batch = {spec.name: data[start : start + BATCH]}
            reference.run(batch)
            candidate.run(batch)

    def compared() -> None:
        comparison = Comparison("model.onnx", source.outputs, candidate.outputs, hints=source.hints)
        for batch in open_data(data, source.inputs, batch_size=BATCH).read():
            expected, received = reference.run(batch.inputs), candidate.run(batch.inputs)
            comparison.update(expected, received, batch.labels, batch.keys)
        comparison.outputs()

    with reference:
        bare(), compared()  # warm up
        rounds_of = [_pair(bare, compared, first=index % 2) for index in range(rounds)]
    times, processor = zip(*rounds_of, strict=True)
    return Result(
        model.name,
        samples / statistics.median(one for one, _ in times),
        samples / statistics.median(other for _, other in times),
        *(statistics.median(other / one for one, other in each) for each in (times, processor)),
    )


Pair = tuple[float, float]


def _pair(one: Callable[[], None], other: Callable[[], None], first: int) -> tuple[Pair, Pair]:
    """Seconds of both, in either order, and seconds of all processors."""
    seconds, processor = {}, {}
    for call in (one, other)[:: -1 if first else 1]:
        start, used = time.perf_counter(), time.process_time()
        call()
        seconds[call], processor[call] = time.perf_counter() - start, time.process_time() - used
    return (seconds[one], seconds[other]), (processor[one], processor[other])


MODELS = (classifier, encoder, block)


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    results = [measure(build(), options.samples, options.rounds) for build in MODELS]
    print(
        f"{'model':<16}{'run only':>12}{'compared':>12}{'ratio':>8}{'processor':>11}"
        f"   goal: at most {GOAL}"
    )
    for found in results:
        print(
            f"{found.model:<16}{found.bare:>10.0f}/s{found.compared:>10.0f}/s{found.ratio:>8.3f}"
            f"{found.processor_ratio:>11.3f}"
        )
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(found) for found in results], indent=2))


if __name__ == "__main__":
    main()

"""What comparing costs beyond running the models, in processor time.

    python benchmarks/compare_throughput.py [--samples 1024] [--rounds 7]

Each round runs a model and its FP16 ONNX file over the same batches twice, in alternating order:
bare, and inside a validation's loop, which also checks and hashes the samples and accumulates every
metric. Printed is the median over rounds of the ratio within a round; the goal is at most 1.15.
`block` is the worst case: it puts out as much as it computes with. `segmenter` puts out 512 x 512
pixels of 21 classes for each of 32 samples, and runs without emulation.
"""

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from scaffold import parser

SEGMENTED = 32

import keras
import numpy as np

from tfmp.converters import convert, open_source
from tfmp.converters.drift.compare import Comparison
from tfmp.converters.runners import OnnxRunner, TensorFlowRunner, onnx_runner
from tfmp.converters.samples.data import open_data
from tfmp.machine import interleaved, paired_ratio


def classifier() -> keras.Model:
    """A small convolutional network on 64 x 64 images, 1000 classes."""
    layers = keras.layers
    hidden = image = keras.Input((64, 64, 3))
    for filters in (32, 64, 128):
        hidden = layers.Conv2D(filters, 3, padding="same", activation="relu")(hidden)
        hidden = layers.MaxPooling2D()(layers.BatchNormalization()(hidden))
    hidden = layers.GlobalAveragePooling2D()(hidden)
    return keras.Model(image, layers.Dense(1000, activation="softmax")(hidden))


def block() -> keras.Model:
    """A self-attention block on 64 steps of 128 features, all steps put out."""
    layers = keras.layers
    steps = keras.Input((64, 128))
    hidden = layers.LayerNormalization()(steps + layers.MultiHeadAttention(4, 32)(steps, steps))
    wide = layers.Dense(512, activation="gelu")(hidden)
    return keras.Model(steps, layers.LayerNormalization()(hidden + layers.Dense(128)(wide)))


def segmenter() -> keras.Model:
    """A network of 5 GFLOP on 512 x 512 images, 21 classes of each pixel."""
    layers = keras.layers
    hidden = image = keras.Input((512, 512, 3))
    for filters in (32, 64, 128):
        hidden = layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(hidden)
    for dilation in (1, 2, 4):
        hidden = layers.Conv2D(128, 3, padding="same", activation="relu", dilation_rate=dilation)(
            hidden
        )
    scores = layers.UpSampling2D(8, interpolation="bilinear")(layers.Conv2D(21, 1)(hidden))
    return keras.Model(image, layers.Softmax()(scores))


def loops(
    source: Any, reference: Any, candidate: Any, samples: int, batch_size: int
) -> dict[str, Callable[[], float]]:
    """Seconds of the processors for running both models, and for running and comparing them."""
    (spec,) = source.inputs
    shape = (samples, *spec.shape[1:])
    data = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)

    def bare() -> float:
        begin = time.process_time()
        for start in range(0, len(data), batch_size):
            batch = {spec.name: data[start : start + batch_size]}
            reference.run(batch)
            candidate.run(batch)
        return time.process_time() - begin

    def compared() -> float:
        begin = time.process_time()
        comparison = Comparison("model.onnx", source.outputs, candidate.outputs, hints=source.hints)
        for batch in open_data(data, source.inputs, batch_size=batch_size).read():
            expected, received = reference.run(batch.inputs), candidate.run(batch.inputs)
            comparison.update(expected, received, batch.labels, batch.keys)
        comparison.outputs()
        return time.process_time() - begin

    return {"bare": bare, "compared": compared}


def ratio(build: Callable[[], keras.Model], samples: int, rounds: int) -> float:
    """Time with comparison over the time without."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        source = open_source(build())
        half = convert(source, "onnx", folder / "half.onnx").path
        if build is segmenter:
            full = convert(source, "onnx", folder / "full.onnx", "fp32").path
            both = loops(open_source(full), OnnxRunner(full), OnnxRunner(half), SEGMENTED, 4)
        else:
            reference = stack.enter_context(TensorFlowRunner(source))
            both = loops(source, reference, onnx_runner(half), samples, 32)
        for run in both.values():  # warm up
            run()
        found = interleaved(both, rounds)
    return paired_ratio(found["compared"], found["bare"])


def main() -> None:
    """Prints a line for each model."""
    given = parser(__doc__)
    given.add_argument("--samples", type=int, default=1024)
    given.add_argument("--rounds", type=int, default=7)
    options = given.parse_args()
    for build in (classifier, block, segmenter):
        found = ratio(build, options.samples, options.rounds)
        print(f"{build.__name__:<12}{found:.3f} times the processor time", flush=True)


if __name__ == "__main__":
    main()

"""Step time of tfmp.LossScaleOptimizer against Keras's own, paired in one run.

    python benchmarks/step_time.py [--rounds 60] [--steps 30] [--json FILE]

Both optimizers train the same model on the same batches. Every round times a block of steps with
each of them, in alternating order, so that drift of the machine hits both alike; what is reported
is the median over rounds of the ratio within a round, with a distribution-free 95 % interval.
"""

import argparse
import itertools
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from scipy.stats import binom

import tfmp


@dataclass(frozen=True)
class Comparison:
    """One model under one compiler setting.

    Attributes:
        model: which model.
        jit: whether XLA compiled the step.
        keras_ms: median milliseconds per step with Keras's LossScaleOptimizer.
        tfmp_ms: the same with tfmp's.
        ratio: median over rounds of tfmp over Keras.
        ratio_low, ratio_high: 95 % confidence interval of that median.
        control: the same median for Keras against a second copy of Keras: what noise alone does.
    """

    model: str
    jit: bool
    keras_ms: float
    tfmp_ms: float
    ratio: float
    ratio_low: float
    ratio_high: float
    control: float


def dense_model() -> tuple[keras.Model, np.ndarray]:
    """Two hidden layers of 128 on 64 features, batch 64."""
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((64,)),
            layers.Dense(128, activation="relu"),
            layers.Dense(128, activation="relu"),
            layers.Dense(10, dtype="float32"),
        ]
    )
    return model, np.random.default_rng(0).standard_normal((64, 64), dtype=np.float32)


def conv_model() -> tuple[keras.Model, np.ndarray]:
    """Two convolutions with batch normalization on 16 x 16 images, batch 16."""
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((16, 16, 3)),
            layers.Conv2D(16, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10, dtype="float32"),
        ]
    )
    return model, np.random.default_rng(0).standard_normal((16, 16, 16, 3), dtype=np.float32)


MODELS = {"dense": dense_model, "conv": conv_model}


def training_block(
    make_model: Callable[[], tuple[keras.Model, np.ndarray]],
    wrap: Callable[[keras.optimizers.Optimizer], keras.optimizers.Optimizer],
    jit: bool,
    steps: int,
) -> Callable[[], float]:
    """A function that trains for `steps` steps and returns the seconds they took."""
    keras.utils.set_random_seed(0)
    model, x = make_model()
    y = np.random.default_rng(1).integers(0, 10, len(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(wrap(keras.optimizers.Adam(1e-4)), loss, jit_compile=jit)
    # The trainer's own step function, as fit calls it, without the callbacks around it.
    model.train_on_batch(x, y)
    step = model.train_function
    if keras.backend.backend() == "jax":
        return jax_block(model, step, (x, y), steps)
    import tensorflow as tf

    batch = (tf.constant(x), tf.constant(y))
    iterator = iter(tf.data.Dataset.from_tensors(batch).repeat())

    def run() -> float:
        start = time.perf_counter()
        for _ in range(steps):
            step(iterator)
        model.optimizer.iterations.numpy()  # waits for what is still running on a device
        return time.perf_counter() - start

    return run


def jax_block(
    model: keras.Model, step: Callable[..., Any], batch: tuple[Any, Any], steps: int
) -> Callable[[], float]:
    """The same on JAX, where a step maps the state that it is given to the next."""
    import jax

    variables = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    state = tuple([variable.value for variable in group] for group in variables)
    batch = jax.device_put(batch)
    iterator = itertools.repeat(batch)

    def run() -> float:
        nonlocal state
        start = time.perf_counter()
        for _ in range(steps):
            _, state = step(state, iterator)
        jax.block_until_ready(state)
        return time.perf_counter() - start

    return run


def compare(name: str, jit: bool, rounds: int, steps: int) -> Comparison:
    """Times Keras twice (the second as control) and tfmp, interleaved."""
    wrappers = {
        "keras": keras.optimizers.LossScaleOptimizer,
        "control": keras.optimizers.LossScaleOptimizer,
        "tfmp": tfmp.LossScaleOptimizer,
    }
    blocks = {key: training_block(MODELS[name], wrap, jit, steps) for key, wrap in wrappers.items()}
    for block in blocks.values():
        block()
    seconds: dict[str, list[float]] = {key: [] for key in blocks}
    order = list(blocks)
    for _ in range(rounds):
        for key in order:
            seconds[key].append(blocks[key]())
        order = order[1:] + order[:1]
    baseline = np.array(seconds["keras"])
    ratios = np.sort(np.array(seconds["tfmp"]) / baseline)
    # Order statistics that enclose the median with 95 %: binomial(rounds, 1/2) quantiles.
    low = max(0, int(binom.ppf(0.025, rounds, 0.5)) - 1)
    return Comparison(
        model=name,
        jit=jit,
        keras_ms=1e3 * float(np.median(baseline)) / steps,
        tfmp_ms=1e3 * float(np.median(seconds["tfmp"])) / steps,
        ratio=float(np.median(ratios)),
        ratio_low=float(ratios[low]),
        ratio_high=float(ratios[-1 - low]),
        control=float(np.median(np.array(seconds["control"]) / baseline)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60, help="paired rounds per comparison")
    parser.add_argument("--steps", type=int, default=30, help="training steps per round")
    parser.add_argument("--json", help="also write the comparisons to this file")
    options = parser.parse_args()
    if options.rounds < 6:
        parser.error(f"--rounds must be 6 or more for a 95 % interval, received {options.rounds}")
    keras.config.set_dtype_policy("mixed_float16")
    print(f"Keras {keras.__version__} on {keras.backend.backend()}, mixed_float16")
    print("model  jit    keras ms  tfmp ms  tfmp/keras  95 % interval   keras/keras")
    comparisons = []
    for name in MODELS:
        for jit in (False, True) if keras.backend.backend() == "tensorflow" else (True,):
            result = compare(name, jit, options.rounds, options.steps)
            comparisons.append(asdict(result))
            print(
                f"{result.model:<6} {result.jit!s:<6} {result.keras_ms:8.3f} {result.tfmp_ms:8.3f}"
                f"  {result.ratio:10.3f}  {result.ratio_low:.3f} - {result.ratio_high:.3f}"
                f"   {result.control:.3f}",
                flush=True,
            )
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"keras": keras.__version__, "comparisons": comparisons}, file, indent=2)


if __name__ == "__main__":
    main()

"""Step time of tfmp.LossScaleOptimizer against Keras's own, paired in one run.

    python benchmarks/step_time.py [--copies 10] [--rounds 15] [--steps 30]

Both optimizers train the same model on the same batches, and so does tfmp's without its gauges,
which tells what these cost. Every round times a block of steps with each of them, in alternating
order, so that drift of the machine hits all alike. Where a compiled step happens to lie in memory
moves its time by a few percent, so the models are built again for each copy; what is reported is
the geometric mean over copies, each the median over rounds of the ratio within a round, with
Student's 95 % interval over the copies.
"""

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

from scaffold import parser

RATIOS = (("tfmp", "keras"), ("tfmp", "without gauges"), ("control", "keras"))

import keras
import numpy as np
from scipy.stats import t

import tfmp
from tfmp.machine import interleaved, paired_ratio


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


def wide_model() -> tuple[keras.Model, np.ndarray]:
    """Four hidden layers of 512 on 64 features, batch 128: a step of a few milliseconds."""
    layers = keras.layers
    hidden = [layers.Dense(512, activation="relu") for _ in range(4)]
    model = keras.Sequential([layers.Input((64,)), *hidden, layers.Dense(10, dtype="float32")])
    return model, np.random.default_rng(0).standard_normal((128, 64), dtype=np.float32)


MODELS = {"dense": dense_model, "conv": conv_model, "wide": wide_model}


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


class WithoutGauges(tfmp.LossScaleOptimizer):
    """Measures no gradients, and never doubles its scale, which takes 2000 steps."""

    def _is_rare(self, now: object) -> Any:
        return keras.ops.convert_to_tensor(False)


WRAPPERS = {
    "keras": keras.optimizers.LossScaleOptimizer,
    "control": keras.optimizers.LossScaleOptimizer,
    "tfmp": tfmp.LossScaleOptimizer,
    "without gauges": WithoutGauges,
}


def compare(name: str, jit: bool, copies: int, rounds: int, steps: int) -> list[str]:
    """Times Keras twice (the second as control), and tfmp twice, on fresh copies of the model.

    Returns:
        Median milliseconds of a step with Keras's wrapper and tfmp's, and `RATIOS` with the ends of
        their 95 % confidence intervals.
    """
    medians = [time_copy(name, jit, copy, rounds, steps) for copy in range(copies)]
    ratios, milliseconds = zip(*medians, strict=True)
    times = [f"{each:8.3f}" for each in np.median(milliseconds, axis=0)]
    ends = (interval(each) for each in zip(*ratios, strict=True))
    return times + [f" {f'{ratio:.3f} ({low:.3f} - {high:.3f})':24}" for ratio, low, high in ends]


def time_copy(
    name: str, jit: bool, copy: int, rounds: int, steps: int
) -> tuple[list[float], tuple[float, float]]:
    """The median of each of `RATIOS`, and milliseconds of Keras and tfmp."""
    keras.backend.clear_session()
    order = list(WRAPPERS)
    order = order[copy % len(order) :] + order[: copy % len(order)]
    blocks = {key: training_block(MODELS[name], WRAPPERS[key], jit, steps) for key in order}
    for block in blocks.values():
        block()
    found = interleaved(blocks, rounds)
    ratios = [paired_ratio(found[one], found[other]) for one, other in RATIOS]
    return ratios, (1e3 * found["keras"].median / steps, 1e3 * found["tfmp"].median / steps)


def interval(ratios: Sequence[float]) -> tuple[float, float, float]:
    """The geometric mean of ratios and the ends of its 95 % confidence interval."""
    logs = np.log(ratios)
    half = t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
    middle = logs.mean()
    return float(np.exp(middle)), float(np.exp(middle - half)), float(np.exp(middle + half))


def main() -> None:
    given = parser(__doc__)
    given.add_argument("--copies", type=int, default=10, help="times that each model is built")
    given.add_argument("--rounds", type=int, default=15, help="paired rounds per copy")
    given.add_argument("--steps", type=int, default=30, help="training steps per round")
    options = given.parse_args()
    if options.copies < 3:
        given.error(f"--copies must be 3 or more for an interval, received {options.copies}")
    keras.config.set_dtype_policy("mixed_float16")
    print(f"Keras {keras.__version__} on {keras.backend.backend()}, mixed_float16")
    print(
        "model  jit    keras ms  tfmp ms"
        + "".join(f"  {f'{one}/{other}':24}" for one, other in RATIOS)
    )
    for name in MODELS:
        for jit in (False, True) if keras.backend.backend() == "tensorflow" else (True,):
            cells = compare(name, jit, options.copies, options.rounds, options.steps)
            print(f"{name:<6} {jit!s:<6}", *cells, flush=True)


if __name__ == "__main__":
    main()

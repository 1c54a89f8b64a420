"""Counts, for code that FP16 may harm, what a plan keeps in float32, and what it keeps for nothing.

Each function of `tests/support/plan_hazards.py` runs in float32 and in FP16 on normal numbers, and
on 8 times, 64 times and a 64th of them. FP16 harms it where results or gradients are off by more
than 5 % of their standard deviation although rounded arguments alone are not. Then models train on
data that only later have what harms them.

Run: python benchmarks/plan_hazards.py [--verbose]
"""

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support")]

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops
from plan_hazards import BENIGN, HARMFUL, Own, model_of
from transformer_families import FAMILIES, tokens

import tfmp

Function = Callable[[tf.Tensor], tf.Tensor]

TOLERANCE, BENEFIT = 0.05, 4.0
ORDINARY, FAR = (1.0,), (8.0, 64.0, 1 / 64)


def both_ways(function: Function, x: np.ndarray, dtype: str, scale: float) -> list[np.ndarray]:
    """Result and gradient, the latter for gradients of a size that arrive."""
    x = tf.cast(x, dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    arriving = np.random.default_rng(1).standard_normal(y.shape) * scale
    slope = tape.gradient(y, x, tf.cast(arriving, y.dtype), tf.UnconnectedGradients.ZERO)
    return [np.asarray(y, "float64"), np.asarray(slope, "float64") / scale]


def off(found: np.ndarray, exact: np.ndarray, least: float) -> float:
    """The root mean square of an error, in standard deviations."""
    if not np.isfinite(exact).all():
        return 0.0
    if not np.isfinite(found).all():
        return np.inf
    return float(np.sqrt(np.mean((found - exact) ** 2)) / max(exact.std(), least, 1e-30))


def is_harmed(function: Function, factor: float) -> bool:
    """Whether FP16 is worse than rounded arguments, at every size of arriving gradients."""
    x = (np.random.default_rng(0).standard_normal((8, 512, 8)) * factor).astype("float32")
    narrow = x.astype("float16").astype("float32")
    exact, rounded = (both_ways(function, one, "float32", 1.0) for one in (x, narrow))
    least = 0.0, TOLERANCE * exact[0].std() / x.std()
    worst = []
    for scale in (2.0**-8, 1.0, 2.0**8):
        found = both_ways(function, x, "float16", scale)
        lost = [off(*three) for three in zip(found, exact, least, strict=True)]
        limits = [
            max(TOLERANCE, BENEFIT * off(*three))
            for three in zip(rounded, exact, least, strict=True)
        ]
        worst.append(max(a / b for a, b in zip(lost, limits, strict=True)))
    return min(worst) > 1


def is_kept(function: Function) -> bool:
    """Whether a plan keeps a layer with this code in float32, or the layer before it."""
    model = model_of({"own": function})
    rows = {row.path: row.policy for row in tfmp.plan(model, "mixed_float16").rows}
    return "float32" in (rows["own"], rows["before_own"])


def unit(x: tf.Tensor) -> tf.Tensor:
    return x / ops.sqrt(ops.sum(x * x, -1, keepdims=True) + 1e-16)


# Code, and what happens to the rows of later batches.
LATER = {
    "norm, rows of zeros": (unit, lambda x: np.where(np.arange(len(x))[:, None] % 4 == 0, 0, x)),
    "norm, 100 times": (HARMFUL["norm"], lambda x: x * 100),
    "root mean square, 100 times": (HARMFUL["root_mean_square"], lambda x: x * 100),
    "variance by hand, 100 times": (
        lambda x: (
            (x - ops.mean(x, -1, keepdims=True))
            / ops.sqrt(
                ops.mean(ops.square(x - ops.mean(x, -1, keepdims=True)), -1, keepdims=True) + 1e-3
            )
        ),
        lambda x: x * 100,
    ),
    "root mean square, 1/1000": (HARMFUL["root_mean_square"], lambda x: x / 1000),
    "exponentials, 8 times": (lambda x: ops.log(1 + ops.exp(x)), lambda x: x * 8),
    "root of 1, 100 times": (HARMFUL["root_of_1"], lambda x: x * 100),
    "tanh of cubes, 30 times": (lambda x: ops.tanh(x * x * x), lambda x: x * 30),
}


def last_loss(function: Function, alter: Callable, policy: str) -> float:
    """The loss at the end of a training whose second half has other numbers."""
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).standard_normal((1024, 8)).astype("float32")
    y = np.tanh(x[:, :1] + x[:, 1:2])
    x[512:] = alter(x[512:])
    inputs = keras.Input((8,))
    hidden = Own(function)(layers.Dense(16, use_bias=False)(inputs))
    model = keras.Model(inputs, layers.Dense(1)(layers.Dense(16, "tanh")(hidden)))
    model.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=False)
    callback = tfmp.MixedPrecision(policy)
    history = model.fit(
        x, y, batch_size=16, epochs=4, shuffle=False, verbose=0, callbacks=[callback]
    )
    return history.history["loss"][-1]


def main() -> None:
    """Runs and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--verbose", action="store_true", help="a line for each function, too")
    verbose = parser.parse_args().verbose
    warnings.simplefilter("ignore")
    kept: dict[str, list[bool]] = {"ordinary": [], "far": [], "none": []}
    begin = time.process_time()
    for name, function in {**BENIGN, **HARMFUL}.items():
        kind = "none"
        if any(is_harmed(function, factor) for factor in ORDINARY):
            kind = "ordinary"
        elif any(is_harmed(function, factor) for factor in FAR):
            kind = "far"
        kept[kind].append(is_kept(function))
        if verbose:
            print(f"{name}: loses {kind}, {'kept' if kept[kind][-1] else 'in 16 bits'}", flush=True)
    print(f"lose on ordinary numbers: {len(kept['ordinary'])}, kept {sum(kept['ordinary'])}")
    print(f"lose at 8, 64 or 1/64 of them: {len(kept['far'])}, kept {sum(kept['far'])}")
    print(f"lose nothing: {len(kept['none'])}, kept for nothing {sum(kept['none'])}")
    print(f"CPU seconds for all: {time.process_time() - begin:.0f}")
    good = 0
    for name, (function, alter) in LATER.items():
        exact, mixed = (last_loss(function, alter, one) for one in ("float32", "mixed_float16"))
        good += mixed <= 1.3 * exact
        if verbose:
            print(f"{name}: {exact:.3g} in float32, {mixed:.3g} in mixed_float16", flush=True)
    print(f"appear only later: {len(LATER)}, trained as in float32 {good}")
    for family in ("pre-norm, masks chosen", "own LayerNorm behind", "ALiBi, masks added"):
        model = FAMILIES[family]()
        if not model.built:
            model(tokens()[0][:2])
        begin = time.process_time()
        rows = tfmp.plan(model, "mixed_float16").rows
        wide = sum(row.compute_dtype == "float32" for row in rows)
        seconds = time.process_time() - begin
        print(f"{family}: {wide} of {len(rows)} layers in float32, {seconds:.1f} CPU seconds")


if __name__ == "__main__":
    main()

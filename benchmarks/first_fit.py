"""Processor seconds of the first and the second `fit` of a model, with Keras alone and with tfmp.

    python benchmarks/first_fit.py [--models dense lstm mobilenet transformer] [--repeats 3]

Each `fit` has eight steps: most of the time goes into planning, tracing and compiling. Keras trains
under its mixed_float16 policy, tfmp with the callback on a float32 model. Every repeat is a process
of its own, and the least of each is shown. For JAX set KERAS_BACKEND=jax.
"""

import argparse
import time

from scaffold import figures_of, give_back, parser

BATCH, STEPS = 8, 8


def dense() -> tuple:
    """Three layers of 256 units."""
    from keras import layers

    return [layers.Dense(256, "relu") for _ in range(3)], (64,)


def lstm() -> tuple:
    """Two recurrent layers over 32 steps."""
    from keras import layers

    return [layers.LSTM(64, return_sequences=True), layers.LSTM(64)], (32, 16)


def mobilenet() -> tuple:
    """MobileNetV2 for small images."""
    from keras import applications, layers

    inside = applications.MobileNetV2((64, 64, 3), 0.35, include_top=False, weights=None)
    return [inside, layers.GlobalAveragePooling2D()], (64, 64, 3)


def transformer() -> tuple:
    """Six blocks of attention and two dense layers."""
    import keras
    from keras import layers

    x = inputs = keras.Input((32, 64))
    for _ in range(6):
        x = layers.LayerNormalization()(layers.Add()([x, layers.MultiHeadAttention(4, 16)(x, x)]))
        wide = layers.Dense(64)(layers.Dense(256, "gelu")(x))
        x = layers.LayerNormalization()(layers.Add()([x, wide]))
    return [keras.Model(inputs, x), layers.GlobalAveragePooling1D()], (32, 64)


MODELS = {made.__name__: made for made in (dense, lstm, mobilenet, transformer)}


def measured(name: str, ours: bool) -> tuple[float, float]:
    """Seconds of two `fit`s, in a process that has trained nothing before."""
    import keras
    import numpy as np

    import tfmp

    keras.utils.set_random_seed(0)
    if not ours:
        keras.config.set_dtype_policy("mixed_float16")
    parts, shape = MODELS[name]()
    last = keras.layers.Dense(1, dtype="float32")
    model = keras.Sequential([keras.Input(shape), *parts, last])
    model.compile("adam", "mse")
    x = np.random.default_rng(0).standard_normal((BATCH * STEPS, *shape)).astype("float32")
    seconds = []
    for _ in range(2):
        callbacks = [tfmp.MixedPrecision("mixed_float16")] if ours else []
        start = time.process_time()
        model.fit(x, x[:, :1].reshape(len(x), -1)[:, :1], BATCH, verbose=0, callbacks=callbacks)
        seconds.append(time.process_time() - start)
    return seconds[0], seconds[1]


def main() -> None:
    asked = parser(__doc__)
    asked.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    asked.add_argument("--repeats", type=int, default=3)
    asked.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = asked.parse_args()
    if given.one:
        give_back({"seconds": measured(given.one[0], given.one[1] == "tfmp")})
        return
    print("| model | first: Keras | tfmp | ratio | second: Keras | tfmp |")
    print("|---|---:|---:|---:|---:|---:|")
    for name in given.models:
        least = {}
        for side in ("keras", "tfmp"):
            runs = [
                figures_of(__file__, "--one", name, side)["seconds"] for _ in range(given.repeats)
            ]
            least[side] = [min(times) for times in zip(*runs, strict=True)]
        (first, second), (ours, again) = least["keras"], least["tfmp"]
        cells = (f"{first:.2f}", f"{ours:.2f}", f"{ours / first:.2f}")
        print(f"| {name} | {' | '.join(cells)} | {second:.2f} | {again:.2f} |", flush=True)


if __name__ == "__main__":
    main()

"""Finds the origin of a NaN: the layer, the operation and the reason, in three cases.

Run: python samples/find_nan.py
"""

import keras
import numpy as np

import tfmp


def build(scale: float) -> keras.Model:
    """A regression whose second layer multiplies by `scale`."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(16, activation="relu", name="hidden"),
            keras.layers.Dense(
                16, kernel_initializer=keras.initializers.Constant(scale), name="big"
            ),
            keras.layers.Dense(1, name="answer"),
        ]
    )
    model.compile("sgd", "mse")
    tfmp.plan(model, "mixed_float16").apply()
    return model


def main() -> None:
    """Finds an overflow and a bad sample, and sees that a sound step is finite."""
    x = np.random.default_rng(0).standard_normal((32, 4)).astype("float32")
    y = x.sum(axis=1, keepdims=True)

    print("== FP16 is too small for a layer")
    print(tfmp.locate_nonfinite(build(scale=1e5), x, y), "\n")

    print("== a sample is not finite")
    bad = x.copy()
    bad[7, 2] = np.nan
    print(tfmp.locate_nonfinite(build(scale=0.1), bad, y), "\n")

    print("== all is well")
    print(tfmp.locate_nonfinite(build(scale=0.1), x, y))


if __name__ == "__main__":
    main()

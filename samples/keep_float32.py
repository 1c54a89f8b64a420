"""Layers that stay in float32: layers that you name, and layers that the plan keeps.

Run: python samples/keep_float32.py
"""

import keras
import numpy as np

import tfmp


def main() -> None:
    """Prints the plan without and with a named layer, then trains with it."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(8, 3, activation="relu", name="features"),
            keras.layers.Conv2D(8, 3, activation="relu", name="delicate"),
            keras.layers.GlobalAveragePooling2D(name="pool"),
            keras.layers.Dense(10, activation="softmax", name="digit"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    print(tfmp.plan(model, "mixed_float16"), "\n")

    # A regular expression, a class, a predicate or a list of them could take the name's place.
    plan = tfmp.plan(model, "mixed_float16", keep_float32="delicate")
    print(plan, "\n")

    x = np.random.default_rng(0).random((64, 8, 8, 1)).astype("float32")
    y = np.arange(64) % 10
    callback = tfmp.MixedPrecision("mixed_float16", keep_float32="delicate")
    model.fit(x, y, epochs=1, verbose=0, callbacks=[callback])
    for layer in model.layers:
        print(f"{layer.name}: computes in {layer.compute_dtype}, weights float32")


if __name__ == "__main__":
    main()

"""First callback: a float32 model trains in mixed precision, and a report shows its course.

Run: python samples/first_callback.py
"""

import keras
import numpy as np

import tfmp


def main() -> None:
    """Trains a classifier under FP16, prints plan and report, and reverts the model."""
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).standard_normal((512, 16)).astype("float32")
    y = (x[:, 0] * x[:, 1] > 0).astype("int32")

    model = keras.Sequential(
        [
            keras.Input((16,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(2, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])

    # "auto", the default, would choose float32 on a machine without Tensor Cores.
    callback = tfmp.MixedPrecision(policy="mixed_float16")
    model.fit(x, y, epochs=8, batch_size=64, verbose=0, callbacks=[callback])

    print(callback.plan, "\n")
    print(callback.report, "\n")
    print("loss by epoch:", [round(value, 3) for value in model.history.history["loss"]])

    tfmp.revert(model)
    print("after tfmp.revert:", model.layers[0].compute_dtype, "with the trained weights")


if __name__ == "__main__":
    main()

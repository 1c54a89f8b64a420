"""A measured static loss scale: the sizes of gradients, and the power of two that fits FP16.

Run: python samples/static_scale.py
"""

import keras
import numpy as np

import tfmp


def main() -> None:
    """Trains a little in float32, measures the gradients, and goes on with the right scale."""
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((512, 16)).astype("float32")
    y = np.sin(x[:, :1]) * 1e-3  # small targets make small gradients

    model = keras.Sequential(
        [keras.Input((16,)), keras.layers.Dense(64, activation="tanh"), keras.layers.Dense(1)]
    )
    model.compile("adam", "mse")
    model.fit(x, y, epochs=3, verbose=0)  # gradients shrink with the loss: measure after a while

    report = tfmp.calibrate(model, (x, y))
    print(report, "\n")

    scale = report.recommended_scale
    callback = tfmp.MixedPrecision("mixed_float16", loss_scale=scale)
    model.fit(x, y, epochs=3, verbose=0, callbacks=[callback])
    print(callback.report)


if __name__ == "__main__":
    main()

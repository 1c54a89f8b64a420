"""A loss scale that is set by hand: small while gradients are large, larger when they shrink.

Run: python samples/scale_schedule.py
"""

import keras
import numpy as np

import tfmp


def main() -> None:
    """Trains under a schedule, and prints the scale at the end of each epoch."""
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).standard_normal((640, 8)).astype("float32")
    y = x.sum(axis=1, keepdims=True)

    model = keras.Sequential(
        [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)]
    )
    model.compile("adam", "mse")

    # From step 0, 25 and 45 on; an epoch has 20 steps.
    schedule = tfmp.ScheduledLossScale({0: 1024.0, 25: 4096.0, 45: 16384.0})
    callback = tfmp.MixedPrecision("mixed_float16", loss_scale=schedule)
    history = model.fit(x, y, epochs=3, batch_size=32, verbose=0, callbacks=[callback]).history

    for epoch, (scale, loss) in enumerate(
        zip(history["loss_scale"], history["loss"], strict=True), start=1
    ):
        print(f"epoch {epoch}: loss {loss:.3f}, loss scale at its end {scale:g}")


if __name__ == "__main__":
    main()

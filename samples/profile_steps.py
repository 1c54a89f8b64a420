"""Is mixed precision worth it? The same training step under three policies, timed in turns.

Run: python samples/profile_steps.py
"""

import keras
import numpy as np

import tfmp


def main() -> None:
    """Profiles a small CNN, and prints the tables and the answer."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            keras.layers.Conv2D(16, 3, activation="relu", name="conv"),
            keras.layers.GlobalAveragePooling2D(name="pool"),
            keras.layers.Dense(10, activation="softmax", name="label"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    x = np.random.default_rng(0).random((64, 16, 16, 3)).astype("float32")
    y = np.arange(64) % 10

    policies = ("float32", "mixed_float16", "mixed_bfloat16")
    print(tfmp.profile_training(model, (x, y), policies, batch_size=16, rounds=6, steps=3))


if __name__ == "__main__":
    main()

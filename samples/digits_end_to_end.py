"""Train, convert and prove: digits in mixed precision, then as static FP16 ONNX and TFLite.

Trains a small CNN that is written in plain float32 on scikit-learn's 1,797 scanned digits, with
one callback that makes the training mixed precision and tells the loss scale of each epoch. Then
the command line converts the saved model and compares both FP16 files with it on held-out digits.

Run: make demo, or: python samples/digits_end_to_end.py [FOLDER]
The exit status is the verdict's: 0 PASS, 1 FAIL, 3 INCONCLUSIVE.
"""

import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import tfmp


def build() -> keras.Model:
    """A plain float32 model: nothing in it knows about mixed precision."""
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1), name="image"),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10, activation="softmax", name="digit"),
        ],
        name="digits",
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main(folder: Path) -> int:
    """Trains, converts and validates in `folder`; returns the exit status of the verdict."""
    folder.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(0)
    images, labels = load_digits(return_X_y=True)
    images = (images / 16.0).astype("float32").reshape(-1, 8, 8, 1)
    x_train, x_test, y_train, y_test = train_test_split(
        images, labels, test_size=0.4, stratify=labels, random_state=0
    )

    print("== 1. train in mixed precision", flush=True)
    model = build()
    # By default the loss scale doubles after 2,000 good steps; this run has 408. After 50, it grows
    # until gradients overflow, which skips a step and halves the scale: loss scaling at work.
    loss_scale = tfmp.DynamicLossScale(growth_interval=50)
    callback = tfmp.MixedPrecision(
        policy="mixed_float16", loss_scale=loss_scale, report=folder / "training.html"
    )
    model.fit(x_train, y_train, batch_size=32, epochs=12, verbose=2, callbacks=[callback])
    model.save(folder / "digits.keras")
    np.savez(folder / "held_out.npz", image=x_test, labels=y_test)

    print("\n== 2. convert to static FP16, and compare on held-out digits", flush=True)
    command = [
        *(str(Path(sys.executable).with_name("tfmp-convert")), "all", "digits.keras"),
        *("-o", ".", "--data", "held_out.npz", "--force"),
        *("--report", "drift.json", "--report", "drift.html", "--explain"),
    ]
    print("$ tfmp-convert", *command[1:], flush=True)
    status = subprocess.run(command, cwd=folder).returncode
    print(f"\nThe report to open in a browser: {folder / 'drift.html'}")
    return status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/demo")))

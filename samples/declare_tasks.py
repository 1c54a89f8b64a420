"""Say what outputs mean, where a model does not: a detector and an autoencoder.

The checks of an output follow from its meaning. A detector's rows are boxes with scores, which
nothing in the model tells; and an autoencoder that was trained with a loss of labels is read as a
model with 64 labels, although its pixels are numbers.

Run: python samples/declare_tasks.py [FOLDER]
The exit status is the highest of the verdicts': 0 PASS, 1 FAIL, 3 INCONCLUSIVE.
"""

import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
from sklearn.datasets import load_digits


def detector(path: Path, data: Path) -> None:
    """Finds a bright rectangle: a row of four corners, as shares of the image, and a score."""
    rng = np.random.default_rng(0)
    first = rng.uniform(0, 0.6, (1500, 2))
    corners = np.hstack([first, first + rng.uniform(0.2, 0.4, (1500, 2))])
    there = rng.random(1500) < 0.7
    rows, columns = np.mgrid[:16, :16] / 16
    top, left, bottom, right = corners.T[..., None, None]
    inside = (rows >= top) & (rows < bottom) & (columns >= left) & (columns < right)
    images = inside * there[:, None, None] + 0.1 * rng.standard_normal((1500, 16, 16))
    truth = np.hstack([corners, np.ones((1500, 1))]) * there[:, None]
    model = keras.Sequential(
        [
            keras.Input((16, 16), name="image"),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(5, activation="sigmoid"),
            keras.layers.Reshape((1, 5), name="found"),
        ],
        name="detector",
    )
    model.compile(keras.optimizers.Adam(0.005), "mean_squared_error")
    model.fit(images[:1000], truth[:1000, None], epochs=10, verbose=0)
    model.save(path)
    np.savez(data, image=images[1000:].astype(np.float32))


def autoencoder(path: Path, data: Path) -> None:
    """Scanned digits through 12 numbers and back."""
    digits = (load_digits().data / 16).astype(np.float32)
    model = keras.Sequential(
        [
            keras.Input((64,), name="pixels"),
            keras.layers.Dense(12, activation="relu"),
            keras.layers.Dense(64, activation="sigmoid", name="decoded"),
        ],
        name="autoencoder",
    )
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy")
    model.fit(digits[:1200], digits[:1200], epochs=5, verbose=0)
    model.save(path)
    np.savez(data, pixels=digits[1200:])


def judge(folder: Path, name: str, *tasks: str) -> int:
    """Converts and validates with the command line; returns the exit status of the verdict."""
    command = [
        *(str(Path(sys.executable).with_name("tfmp-convert")), "onnx", f"{name}.keras"),
        *("-o", f"{name}.onnx", "--data", f"{name}.npz", "--force", "-v"),
    ]
    for task in tasks:
        command += ["--task", task]
    print("$ tfmp-convert", *command[1:], flush=True)
    return subprocess.run(command, cwd=folder).returncode


def main(folder: Path) -> int:
    """Judges each model as it is read without help, then as declared."""
    folder.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(0)
    detector(folder / "detector.keras", folder / "detector.npz")
    autoencoder(folder / "autoencoder.keras", folder / "autoencoder.npz")

    print("\n== boxes: read as numbers, then as detections", flush=True)
    found = [judge(folder, "detector"), judge(folder, "detector", "found=detection:columns=0-3")]
    print("\n== pixels: read as labels, then as numbers", flush=True)
    found += [judge(folder, "autoencoder"), judge(folder, "autoencoder", "decoded=reconstruction")]
    return max(found)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/tasks")))

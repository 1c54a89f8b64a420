"""A model that overflows in FP16, found and repaired: as few nodes in FP32 as keep it right.

Run: python samples/repair_overflow.py [FOLDER]
"""

import sys
from pathlib import Path

import keras
import numpy as np

from tfmp.converters import convert, validate


def overflowing_model() -> keras.Model:
    """Two layers make values of millions, past FP16's 65504; the next makes them small."""
    keras.utils.set_random_seed(0)
    big, small = (keras.initializers.RandomNormal(stddev=s, seed=1) for s in (300.0, 1e-3))
    return keras.Sequential(
        [
            keras.Input((16,), name="features"),
            keras.layers.Dense(16, activation="relu", name="first"),
            keras.layers.Dense(16, kernel_initializer=big, activation="relu", name="grows"),
            keras.layers.Dense(16, kernel_initializer=big, activation="relu", name="overflows"),
            keras.layers.Dense(16, kernel_initializer=small, name="shrinks"),
            keras.layers.Dense(4, name="scores"),
        ]
    )


def main(folder: Path) -> None:
    """Converts to plain FP16 and with the search, and compares both with the model."""
    folder.mkdir(parents=True, exist_ok=True)
    model = overflowing_model()
    x = {"features": np.random.default_rng(0).standard_normal((3000, 16)).astype("float32")}

    plain = convert(model, output=folder / "plain.onnx", force=True)
    mixed = convert(model, output=folder / "mixed.onnx", precision="mixed", data=x, force=True)
    report = validate(model, [plain, mixed], x)
    for candidate in report.candidates:
        output = candidate.outputs[0]
        print(f"{candidate.name}: {candidate.verdict}, relative L2 {output.rel_l2:.2g}")
    print("\nWhat was done for mixed.onnx:")
    for note in mixed.notes:
        print(f"  {note}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/repair"))

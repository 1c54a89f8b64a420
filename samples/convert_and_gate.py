"""Convert and gate in CI: a file that drifts too far from its model fails the build.

Writes reports that CI shows (JUnit XML) and that people read (HTML, Markdown).

Run: python samples/convert_and_gate.py [FOLDER]
The exit status is the verdict's: 0 PASS, 1 FAIL, 3 INCONCLUSIVE.
"""

import sys
from pathlib import Path

import keras
import numpy as np

from tfmp.converters import DriftBudget, convert, validate

STATUS = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3}


def trained_model() -> tuple[keras.Model, np.ndarray, np.ndarray]:
    """Stands for the model that your build has just trained, and data held out from it."""
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).standard_normal((2000, 16)).astype("float32")
    y = (x[:, :4]).argmax(axis=1)
    model = keras.Sequential(
        [
            keras.Input((16,), name="features"),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(4, activation="softmax", name="label"),
        ]
    )
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    model.fit(x[:1000], y[:1000], epochs=3, verbose=0)
    return model, x[1000:], y[1000:]


def main(folder: Path) -> int:
    """Converts, validates against a budget, writes reports; returns the exit status."""
    folder.mkdir(parents=True, exist_ok=True)
    model, x, labels = trained_model()

    artifact = convert(model, to="onnx", output=folder / "model.onnx", force=True)
    # Declared before the run, and written into the reports.
    budget = DriftBudget(rel_l2=0.01, flip_rate=0.01)
    report = validate(model, artifact, {"features": x}, labels=labels, budget=budget)

    for name in ("drift.html", "drift.md", "drift.xml"):
        report.save(folder / name)
    candidate = report.candidates[0]
    print(f"{candidate.name}: {report.verdict}, relative L2 {candidate.outputs[0].rel_l2:.2g}")
    for reason in candidate.reasons:
        print(f"  {reason}")
    print(f"reports: {', '.join(sorted(path.name for path in folder.glob('drift.*')))}")
    return STATUS[report.verdict]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/gate")))

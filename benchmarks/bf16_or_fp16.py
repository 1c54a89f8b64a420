"""When a BF16 file beats an FP16 file, and when not: small models of either kind.

    python benchmarks/bf16_or_fp16.py [--only WORD]

Values of half of the models leave the range of FP16, in both directions. Those of the others do not
and show the three bits that BF16 lacks. All are converted to both and validated on 600 samples.
"""

import tempfile
from pathlib import Path

from scaffold import parser

SAMPLES = 600

import keras
import numpy as np
from keras import layers, ops

from tfmp.converters import convert

DRAW = np.random.default_rng(0)


def _normal(*shape: int) -> np.ndarray:
    return DRAW.standard_normal((SAMPLES, *shape)).astype(np.float32)


def _classifier():
    x = keras.Input((16,))
    hidden = layers.Dense(64, "gelu")(layers.Dense(64, "gelu")(x))
    return keras.Model(x, layers.Dense(4, "softmax")(hidden)), _normal(16)


def _encoder():
    x = keras.Input((8, 32))
    stream = x
    for _ in range(4):
        hidden = layers.LayerNormalization()(stream)
        stream = stream + layers.MultiHeadAttention(4, 8)(hidden, hidden)
        hidden = layers.LayerNormalization()(stream)
        stream = stream + layers.Dense(32)(layers.Dense(128, "gelu")(hidden))
    pooled = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(stream))
    return keras.Model(x, layers.Dense(4)(pooled)), _normal(8, 32)


def _between_products(scale: float):
    """Hidden values that are `scale` times as large as usual."""
    x = keras.Input((16,))
    hidden = layers.Dense(64)(x)
    large = ops.relu(layers.Dense(64)(hidden * scale))
    hidden = layers.Dense(64, "relu")(layers.LayerNormalization(epsilon=0.0)(large))
    return keras.Model(x, layers.Dense(4)(hidden)), _normal(16)


MODELS = {
    "classifier": _classifier,
    "encoder of four blocks": _encoder,
    "hidden values past 65504": lambda: _between_products(1e6),
    "hidden values below 6e-8": lambda: _between_products(1e-9),
}


def measured(model: keras.Model, x: np.ndarray, path: Path, precision: str) -> str:
    """Verdict and relative L2 error of a file of a precision."""
    found = convert(model, "onnx", path, precision, x).report.candidates[0]
    error = max(output.rel_l2 for output in found.outputs)
    return f"{found.verdict}, {error:.1g}"


def main() -> None:
    """Prints the table."""
    given = parser(__doc__)
    given.add_argument("--only", default="", help="a word of the models' names")
    only = given.parse_args().only
    print("| Model | FP16 | BF16 |\n| --- | --- | --- |")
    for name, build in MODELS.items():
        if only not in name:
            continue
        keras.utils.set_random_seed(0)
        model, x = build()
        with tempfile.TemporaryDirectory() as folder:
            told = [measured(model, x, Path(folder, f"{p}.onnx"), p) for p in ("fp16", "bf16")]
        print(f"| {name} | {' | '.join(told)} |", flush=True)


if __name__ == "__main__":
    main()

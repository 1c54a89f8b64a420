"""Real harm, before and after the edges of a model are FP32: small models made for it.

    python benchmarks/fp16_edges.py [--only WORD]

Each harmed model has a number beside an offset: outputs in units of their own, raw inputs that the
model centres itself, constants added inside. The ordinary ones have none. All are converted with
`fp16_edges` (as before) and without, and validated on 600 samples; the drift is the error over the
variation of the output, since over its size an offset hides it.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import onnx
from keras import layers, ops

from tfmp.converters import convert
from tfmp.converters.onnx.emulation import GPU
from tfmp.converters.runners import OnnxRunner, onnx_runner

SAMPLES = 600
Built = tuple[keras.Model, np.ndarray]
DRAW = np.random.default_rng(0)


def _normal(*shape: int) -> np.ndarray:
    return DRAW.standard_normal((SAMPLES, *shape)).astype(np.float32)


def _scaled(model: keras.Model, x: np.ndarray, spread: float, offset: Any) -> Built:
    """Gives the last Dense layer weights and a bias as if it had been trained to these units."""
    head = model.layers[-1]
    kernel, bias = head.get_weights()
    varies = np.asarray(model.predict(x, verbose=0)).std(axis=0)
    head.set_weights([kernel * spread / varies, bias * 0 + offset])
    return model, x


def _regression(spread: float, offset: Any, outputs: int = 1) -> Built:
    x = _normal(12)
    inputs = keras.Input((12,), name="x")
    hidden = layers.Dense(32, "relu")(layers.Dense(32, "relu")(inputs))
    return _scaled(keras.Model(inputs, layers.Dense(outputs)(hidden)), x, spread, offset)


def _images(spread: float, offset: float) -> Built:
    x = _normal(12, 12, 3)
    inputs = keras.Input((12, 12, 3), name="x")
    hidden = layers.Conv2D(16, 3, activation="relu")(inputs)
    hidden = layers.GlobalAveragePooling2D()(layers.Conv2D(32, 3, activation="relu")(hidden))
    return _scaled(keras.Model(inputs, layers.Dense(1)(hidden)), x, spread, offset)


def _series(spread: float, offset: float) -> Built:
    x = _normal(10, 4)
    inputs = keras.Input((10, 4), name="x")
    return _scaled(keras.Model(inputs, layers.Dense(1)(layers.LSTM(16)(inputs))), x, spread, offset)


def _unscaled(spread: float, offset: float) -> Built:
    """The model turns its standardized result into units itself."""
    x = _normal(12)
    inputs = keras.Input((12,), name="x")
    hidden = layers.Dense(1)(layers.Dense(32, "tanh")(inputs))
    return keras.Model(inputs, layers.Rescaling(spread, offset)(hidden)), x


def _raw(mean: float, deviation: float) -> Built:
    """A Normalization layer behind raw numbers."""
    x = mean + deviation * _normal(8)
    inputs = keras.Input((8,), name="x")
    normal = layers.Normalization()
    normal.adapt(x)
    hidden = layers.Dense(32, "tanh")(normal(inputs))
    return keras.Model(inputs, layers.Dense(1)(hidden)), x


def _differences(mean: float, deviation: float) -> Built:
    x = mean + deviation * _normal(8)
    inputs = keras.Input((8,), name="x")
    steps = (inputs[:, 1:] - inputs[:, :-1]) / deviation
    return keras.Model(inputs, layers.Dense(1)(layers.Dense(32, "tanh")(steps))), x


def _ratios() -> Built:
    x = np.exp(11 + 0.5 * _normal(6)).astype(np.float32)
    inputs = keras.Input((6,), name="x")
    shares = inputs / ops.sum(inputs, axis=-1, keepdims=True)
    return keras.Model(inputs, layers.Dense(1)(layers.Dense(32, "tanh")(ops.log(shares)))), x


def _angles() -> Built:
    """Sines of time and frequency."""
    x = (1000 * DRAW.random((SAMPLES, 1))).astype(np.float32)
    inputs = keras.Input((1,), name="t")
    angles = inputs * np.geomspace(1, 0.01, 16).astype(np.float32)
    features = ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)
    return keras.Model(inputs, layers.Dense(1)(layers.Dense(32, "tanh")(features))), x


def _inside(offset: float) -> Built:
    """An offset that the model adds and takes away again before its next layer."""
    x = _normal(12)
    inputs = keras.Input((12,), name="x")
    kelvin = layers.Rescaling(8.0, offset)(layers.Dense(16, "tanh")(inputs))
    centred = layers.Rescaling(0.125, -offset / 8)(kelvin)
    return keras.Model(inputs, layers.Dense(1)(layers.Dense(16, "tanh")(centred))), x


def _classifier() -> Built:
    x = _normal(12, 12, 3)
    inputs = keras.Input((12, 12, 3), name="x")
    hidden = layers.Conv2D(16, 3, activation="relu")(layers.Rescaling(0.5)(inputs))
    hidden = layers.Flatten()(layers.MaxPooling2D()(hidden))
    return keras.Model(inputs, layers.Dense(10, "softmax")(hidden)), x


def _encoder() -> Built:
    x = _normal(8, 16)
    inputs = keras.Input((8, 16), name="x")
    hidden = inputs
    for _ in range(2):
        attended = layers.MultiHeadAttention(2, 8)(hidden, hidden)
        hidden = layers.LayerNormalization()(hidden + attended)
        fed = layers.Dense(16)(layers.Dense(32, "gelu")(hidden))
        hidden = layers.LayerNormalization()(hidden + fed)
    return keras.Model(inputs, layers.Dense(4)(layers.GlobalAveragePooling1D()(hidden))), x


def _segmenter() -> Built:
    x = _normal(16, 16, 3)
    inputs = keras.Input((16, 16, 3), name="x")
    down = layers.Conv2D(16, 3, 2, padding="same", activation="relu")(inputs)
    up = layers.UpSampling2D()(layers.Conv2D(16, 3, padding="same", activation="relu")(down))
    return keras.Model(inputs, layers.Conv2D(1, 1, activation="sigmoid")(up)), x


HARM: dict[str, Callable[[], Built]] = {
    "output in kelvin, 288 +- 8": lambda: _regression(8, 288),
    "output in ppm, 415 +- 3": lambda: _regression(3, 415),
    "output in hPa, 1013 +- 7": lambda: _regression(7, 1013),
    "output in dollars, 30,000 +- 400": lambda: _regression(400, 30_000),
    "output in years, 2015 +- 4": lambda: _regression(4, 2015),
    "quantiles beside each other": lambda: _regression(1, np.linspace(98, 102, 5), 5),
    "latitude and longitude of a town": lambda: _regression(0.05, [48.2, 16.4], 2),
    "scores near one": lambda: _regression(2e-3, 0.98),
    "embedding with a mean": lambda: _regression(0.1, 5 * np.ones(16), 16),
    "image to nm, 550 +- 2": lambda: _images(2, 550),
    "series to bpm, 140 +- 1": lambda: _series(1, 140),
    "units by Rescaling, 300 +- 5": lambda: _unscaled(5, 300),
    "raw income, 60,000 +- 20,000": lambda: _raw(60_000, 20_000),
    "raw kelvin, 290 +- 1": lambda: _raw(290, 1),
    "raw position, 5,000 +- 3": lambda: _raw(5000, 3),
    "raw year, 2000 +- 10": lambda: _raw(2000, 10),
    "differences of kelvin": lambda: _differences(290, 0.5),
    "shares of a sum": _ratios,
    "sines of time": _angles,
    "kelvin inside": lambda: _inside(290),
}
ORDINARY: dict[str, Callable[[], Built]] = {
    "standardized output": lambda: _regression(1, 0),
    "classifier": _classifier,
    "encoder": _encoder,
    "segmenter": _segmenter,
    "series, standardized": lambda: _series(1, 0),
}


def measured(model: keras.Model, x: np.ndarray, folder: Path, before: bool) -> tuple[str, ...]:
    """Verdict, error over variation, bytes and casts of the FP16 file."""
    path = folder / ("before.onnx" if before else "after.onnx")
    artifact = convert(model, "onnx", path, data=x, fp16_edges=before, force=True)
    exact = folder / "fp32.onnx"
    convert(model, "onnx", exact, "fp32", force=True)
    with OnnxRunner(exact) as one, onnx_runner(path, GPU) as other:
        name = one.inputs[0].name
        truth, found = one.run({name: x}), other.run({name: x})
    error = max(
        float(np.max(np.std(found[key] - truth[key], axis=0) / np.std(truth[key], axis=0)))
        for key in truth
    )
    casts = sum(node.op_type == "Cast" for node in onnx.load(path).graph.node)
    assert artifact.report is not None
    verdict = artifact.report.candidates[0].verdict.value
    return verdict, f"{error:.2g}", str(path.stat().st_size), str(casts)


def main() -> int:
    """Prints a row for each model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="a word of the models' names")
    only = parser.parse_args().only
    rows = [("model", "verdict", "error", "bytes", "casts")]
    for name, build in {**HARM, **ORDINARY}.items():
        if only not in name:
            continue
        keras.utils.set_random_seed(0)
        model, x = build()
        with tempfile.TemporaryDirectory() as folder:
            both = [measured(model, x, Path(folder), before) for before in (True, False)]
        pairs = (f"{one} -> {other}" for one, other in zip(*both, strict=True))
        rows.append((name, *pairs))
        print(" | ".join(rows[-1]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

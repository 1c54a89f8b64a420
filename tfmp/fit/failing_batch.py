"""Saves a batch whose step was not finite, with the model and a script that replays the step."""

from pathlib import Path

import keras
import numpy as np

from tfmp.shared.atomic_file import naming
from tfmp.shared.backend import Tensor, TensorTree, current_backend

_SCRIPT = '''"""Replays the step that was not finite: python {name}

If the model has classes of your own, import them here, before load_model.
"""

import os
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", {backend!r})

import keras
import numpy as np

import tfmp

here = Path(__file__).parent
model = keras.models.load_model(here / "model.keras")
values = np.load(here / "batch.npz")
x = {x}
y = {y}
sample_weight = {sample_weight}
print(tfmp.locate_nonfinite(model, x, y, sample_weight, loss_scale={scale!r}))
'''


def save_failing_batch(
    folder: str | Path, model: keras.Model, batch: TensorTree, loss_scale: float
) -> Path:
    """Writes `batch.npz`, `model.keras` and `replay.py`.

    Args:
        folder: made if it is missing; files of an earlier failure in it are replaced.
        model: with the weights that the step failed with: a skipped step changes none.
        batch: as `fit` has it. Sparse and ragged tensors become dense ones.
        loss_scale: the scale of the step.

    Returns:
        The script.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, np.ndarray] = {}
    names = ("x", "y", "sample_weight")
    parts = keras.utils.unpack_x_y_sample_weight(batch)
    written = {
        name: _expression(name, part, arrays) for name, part in zip(names, parts, strict=True)
    }
    if hasattr(model, "jax_state_sync"):
        model.jax_state_sync()  # `fit` holds the weights between steps
    with naming(folder):
        np.savez_compressed(folder / "batch.npz", **arrays)  # type: ignore[arg-type]
        model.save(folder / "model.keras")
    script = folder / "replay.py"
    text = _SCRIPT.format(
        name=script.name, backend=current_backend().name, scale=float(loss_scale), **written
    )
    script.write_text(text, encoding="utf-8")
    return script


def _expression(name: str, value: TensorTree, arrays: dict[str, np.ndarray]) -> str:
    """A part of a batch as Python text; its arrays are collected by name."""
    if value is None:
        return "None"
    if isinstance(value, dict):
        items = (
            f"{key!r}: {_expression(f'{name}.{key}', item, arrays)}" for key, item in value.items()
        )
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list | tuple):
        items = (_expression(f"{name}.{i}", item, arrays) for i, item in enumerate(value))
        text = ", ".join(items)
        return f"[{text}]" if isinstance(value, list) else f"({text},)"
    arrays[name] = _stored(value)
    return f"values[{name!r}]"


def _stored(tensor: Tensor) -> np.ndarray:
    """A tensor as an array that a file of NumPy's holds without pickle."""
    array = np.asarray(keras.ops.convert_to_numpy(tensor))
    if array.dtype == object:  # strings
        return array.astype("S")
    return array.astype("float32") if array.dtype.name == "bfloat16" else array

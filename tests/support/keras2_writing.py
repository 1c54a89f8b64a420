"""Writes model files as old versions of Keras did."""

import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import tf_keras

Arrays = Sequence[np.ndarray]
Write = Callable[[Path], Any]


@dataclass(frozen=True)
class Recorded:
    """A file of some version of Keras.

    Attributes:
        suffix: of its name.
        write: writes the file; gives a model of tf_keras that computes what its writer did.
        ids: how many different ids the inputs hold; 0 for real numbers.
    """

    suffix: str
    write: Write
    ids: int = 0

    def batch(self, model: Any, samples: int = 3) -> list[np.ndarray]:
        """Samples for the inputs of `model`; open sizes are 6."""
        random = np.random.default_rng(0)
        found = []
        for tensor in model.inputs:
            sizes = [size or 6 for size in tensor.shape[1:]]
            shape = (tensor.shape[0] or samples, *sizes)
            values = random.integers(0, self.ids, shape) if self.ids else random.normal(size=shape)
            found.append(values.astype(tensor.dtype.as_numpy_dtype))
        return found


def filled(model: Any) -> Any:
    """The model with weights that are no initializer's, positive where a variance must be."""
    random = np.random.default_rng(1)
    for weight in model.weights:
        spread = random.normal(0, 0.4, weight.shape)
        weight.assign(np.abs(spread) + 0.3 if "variance" in weight.name else spread)
    return model


def write_h5(
    path: Path,
    config: object,
    weights: Mapping[str, Arrays],
    version: str,
    backend: str = "tensorflow",
) -> None:
    """An HDF5 file of an old Keras: its architecture, and weights by layer."""
    keras_1 = version.startswith("1")
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = json.dumps(config).encode()
        file.attrs["keras_version"] = version.encode()
        group = file.create_group("model_weights")
        if not keras_1:
            group.attrs["keras_version"] = version.encode()
            group.attrs["backend"] = backend.encode()
        group.attrs["layer_names"] = [name.encode() for name in weights]
        for name, arrays in weights.items():
            layer = group.create_group(name)
            names = [f"{name}/weight_{index}:0".encode() for index in range(len(arrays))]
            layer.attrs["weight_names"] = names
            for key, array in zip(names, arrays, strict=True):
                layer.create_dataset(key.decode(), data=array)


def own_weights(model: Any) -> dict[str, Arrays]:
    """The weights of each layer of a model, in tf_keras's own layout."""
    return {layer.name: layer.get_weights() for layer in model.layers}


def sequential(*stack: Any) -> Any:
    """A filled Sequential model."""
    return filled(tf_keras.Sequential(list(stack)))


def saved(build: Callable[[], Any], version: str) -> Write:
    """A file that tf_keras itself writes as that version did."""

    def write(path: Path) -> Any:
        model = filled(build())
        model.compile("adam", "mse")
        # Keras went by the name; people rename.
        written = path.with_name("written.h5" if path.suffix != ".keras" else "written.keras")
        model.save(written)
        written.rename(path)
        if path.suffix != ".keras":
            with h5py.File(path, "r+") as file:
                file.attrs["keras_version"] = file["model_weights"].attrs["keras_version"] = version
        return model

    return write


def archived(build: Callable[[], Any], version: str, separator: str) -> Write:
    """An archive whose weights lie where Keras 2.12 to 2.14 put them, on Windows or elsewhere."""

    def write(path: Path) -> Any:
        model = filled(build())
        model.compile("adam", "mse")
        model.save(path.with_name("written.keras"))
        with zipfile.ZipFile(path.with_name("written.keras")) as old:
            config, weights = old.read("config.json"), io.BytesIO(old.read("model.weights.h5"))
        moved = io.BytesIO()
        with h5py.File(weights) as source, h5py.File(moved, "w") as target:
            places: dict[str, str] = {"": ""}
            taken: dict[tuple[str, str], int] = {}

            def place(path: str) -> str:
                """Layers with weights took two numbers."""
                if path not in places:
                    parent, _, name = path.rpartition("/")
                    if parent.rpartition("/")[2] == "layers":
                        kind, _ = _by_number(name)
                        number = taken.get((parent, kind), 0)
                        taken[parent, kind] = number + (2 if _has_weights(source[path]) else 1)
                        name = f"{kind}_{number}" if number else kind
                    elif name == "layers":
                        name = "_layer_checkpoint_dependencies"
                    places[path] = f"{place(parent)}{separator}{name}".lstrip(separator)
                return places[path]

            names: list[str] = []
            source.visit(names.append)
            for name in sorted(names, key=lambda name: [_by_number(p) for p in name.split("/")]):
                folder, _, end = name.rpartition("/vars/")
                moved_to = f"{place(folder)}/vars/{end}" if end else None
                if moved_to and isinstance(source[name], h5py.Dataset):
                    target[moved_to] = source[name][()]
                elif not end and not name.endswith("vars"):
                    place(name)
                    target.require_group(f"{place(name)}/vars")
        with zipfile.ZipFile(path, "w") as new:
            new.writestr("metadata.json", json.dumps({"keras_version": version}))
            new.writestr("config.json", config)
            new.writestr("model.weights.h5", moved.getvalue())
        path.with_name("written.keras").unlink()
        return model

    return write


def _has_weights(group: Any) -> bool:
    found: list[object] = []
    group.visititems(lambda _, item: found.append(item) if isinstance(item, h5py.Dataset) else None)
    return bool(found)


def _by_number(name: str) -> tuple[str, int]:
    kind, _, number = name.rpartition("_")
    return (kind, int(number)) if kind and number.isdecimal() else (name, 0)

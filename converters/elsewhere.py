"""Models of Keras on JAX or PyTorch: a process whose Keras runs on TensorFlow works on them."""

import inspect
import io
import json
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from types import FunctionType
from typing import Any, ParamSpec, TypeVar
from zipfile import ZipFile

import numpy as np

from tfmp.converters.intake import (
    KERAS_SUFFIXES,
    CustomObjects,
    is_open,
    request_of,
    texts_in,
)
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.frameworks import KerasModel
from tfmp.converters.shared.worker import kept_worker, tell
from tfmp.shared.atomic_file import temporary_folder
from tfmp.shared.framework_start import import_tensorflow
from tfmp.shared.progress import listening

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_LONGEST_CALL_S = 24 * 3600.0
_ENVIRONMENT = {
    "KERAS_BACKEND": "tensorflow",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",  # the caller's framework has the card, too
}
# Their functions and classes do not change between two calls.
_STEADY = {*sys.stdlib_module_names, "numpy", "keras", "tfmp"}


def on_tensorflow(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Lets a function of a model work where Keras runs on another backend than TensorFlow.

    A live Keras model, or a Keras file, then goes to a process whose Keras runs on TensorFlow, with
    the other arguments; that process is kept for the next call.

    Args:
        function: takes a model first, and `data`, `labels`, `progress` and `count` besides.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def called(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        given = signature.bind(*args, **kwargs)
        if not _is_of_another_backend(next(iter(given.arguments.values()), None)):
            return function(*args, **kwargs)
        return _called_there(called, given)

    return called


def _is_of_another_backend(model: Any) -> bool:
    if is_open(model):
        return False
    request = request_of(model)
    if request.path is None and "keras" not in sys.modules:
        return False
    if request.path is not None and request.path.suffix.lower() not in KERAS_SUFFIXES:
        return False
    import keras

    if keras.backend.backend() == "tensorflow":
        return False
    return request.path is not None or isinstance(request.model, keras.Model)


# A live model as a file: the classes and functions of the user's that it names, and its loss.
_Saved = tuple[Path, CustomObjects, Any]


def _called_there(function: Callable[..., Any], given: inspect.BoundArguments) -> Any:
    stage = given.arguments.pop("progress", None)
    counted = given.arguments.pop("count", None)
    for name in {"data", "labels"} & given.arguments.keys():
        given.arguments[name] = _read(given.arguments[name])
    model, *args = given.args
    worker = kept_worker(
        f"{__name__}:OnTensorFlow",
        label="TensorFlow's process",
        timeout_s=_LONGEST_CALL_S,
        environment=_ENVIRONMENT,
    )
    with worker as there, temporary_folder() as folder, listening(stage, counted) as told:
        request, saved = request_of(model), None
        if request.path is None:
            saved = _saved(request.model, folder)
            request = replace(request, model=None)
        packed, has_own_code = _packed(
            (sys.path, os.getcwd(), function, request, saved, args, given.kwargs)
        )
        try:
            return there.call("call", packed, hear=lambda name, *news: getattr(told, name)(*news))
        finally:
            if has_own_code:  # which the user may change before the next call
                there.close()


class OnTensorFlow:
    """Calls functions of models; the object that a `Worker` holds."""

    def __init__(self) -> None:
        """Loads TensorFlow, while the caller saves its model."""
        import_tensorflow()

    def call(self, packed: bytes) -> Any:
        """Makes a call that `_packed` has written."""
        sys.path[:], folder, function, request, saved, args, kwargs = pickle.loads(packed)
        os.chdir(folder)
        if saved is not None:
            request = replace(request, model=_loaded(*saved))
        stage, counted = partial(tell, "__call__"), partial(tell, "count")
        return function(request, *args, **kwargs, progress=stage, count=counted)


# The model


def _saved(model: KerasModel, folder: Path) -> _Saved:
    path = folder / "model.keras"
    try:
        model.save(path)
    except Exception as error:  # whatever a layer's get_config raises
        raise InputError(
            f"model {model.name!r} cannot be saved ({type(error).__name__}: {error})",
            "TensorFlow's process reads it from a file: let `model.save('model.keras')` work",
        ) from error
    with ZipFile(path) as archive:
        config = json.loads(archive.read("config.json"))
    named = set(texts_in(config))
    own = {name: value for name, value in _own_objects(model) if name in named}
    return path, own, (config.get("compile_config") or {}).get("loss")


def _own_objects(model: KerasModel) -> Iterator[tuple[str, Any]]:
    """Classes and functions of a live model and not of Keras, by the names that its file uses."""
    import keras

    found = dict(keras.saving.get_custom_objects())
    for layer in model._flatten_layers():
        for one in (layer, *vars(layer).values()):
            kind = one if isinstance(one, FunctionType) else type(one)
            found[keras.saving.get_registered_name(kind)] = kind
    for name, kind in found.items():
        if kind.__module__.partition(".")[0] not in _STEADY:
            yield name, kind


def _loaded(path: Path, own: CustomObjects, loss: Any) -> KerasModel:
    """The live model again."""
    import keras

    keras.backend.clear_session()  # layers without a name are numbered from the first on
    model = keras.saving.load_model(path, own, compile=False, safe_mode=False)
    model.loss = loss
    return model


# The other arguments


def _read(data: Any) -> Any:
    """Data as arrays: tensors belong to a device of this process, and iterators to it."""
    import keras

    whole = Mapping | list | tuple | np.ndarray | str | os.PathLike
    if isinstance(data, Iterable) and not isinstance(data, whole) and not hasattr(data, "shape"):
        return [_read(batch) for batch in data]
    return keras.tree.map_structure(_array, data)


def _array(leaf: Any) -> Any:
    import keras

    if keras.ops.is_tensor(leaf):
        return keras.ops.convert_to_numpy(leaf)
    return np.asarray(leaf) if hasattr(leaf, "__array__") else leaf


def _packed(call: tuple[Any, ...]) -> tuple[bytes, bool]:
    """A call as bytes, and whether it holds functions or classes of the user's own."""
    written = io.BytesIO()
    pickler = _Pickler(written, pickle.HIGHEST_PROTOCOL)
    pickler.dump(call)
    return written.getvalue(), pickler.has_own_code


class _Pickler(pickle.Pickler):
    """Refuses what another process cannot import."""

    has_own_code = False

    def reducer_override(self, value: Any) -> Any:
        """Called for every class and function, and for objects of classes."""
        if not isinstance(value, type | FunctionType):
            return NotImplemented
        inside = "<locals>" in value.__qualname__ or "<lambda>" in value.__qualname__
        if inside or value.__module__ == "__main__":
            import keras

            place = "inside a function" if inside else "in the script or notebook itself"
            raise InputError(
                f"{value.__qualname__.rpartition('.')[2]!r} is defined {place}",
                "Move it to the top of a module",
                why=f"Keras runs on {keras.backend.backend()!r} here: another process traces "
                "the model with TensorFlow, and has to import it",
            )
        self.has_own_code |= value.__module__.partition(".")[0] not in _STEADY
        return NotImplemented

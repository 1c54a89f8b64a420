"""Finds what in a file's architecture would run code of its own, before Keras reads it.

Keras 2 has no safe mode for HDF5 files, and in its own archives it imports any module that the
file names. So nothing of a file reaches it that is not Keras's or TensorFlow's, unless the user
gave it.
"""

import builtins
from collections.abc import Container, Iterator
from typing import Any

from tfmp.converters.intake.keras2.archive import Config

LAMBDA = (
    "the model holds a Lambda layer, which is Python code that would run here. If you trust the "
    "source of the file, allow it with --unsafe-load (unsafe_load=True); else rebuild the layer "
    "as a class."
)

SAVED_MODEL = (
    "the model holds a TFSMLayer, which runs a SavedModel from outside of this file. Convert the "
    "SavedModel folder itself, or rebuild the model around layers of Keras and save it again."
)

# Where functions of TensorFlow may come from when a file calls them by name (`TFOpLambda`): they
# compute tensors from tensors. `io`, `saved_model` or `py_function` read, write and run.
_NAMESPACES = (
    "__operators__ bitwise dtypes image keras.activations keras.backend keras.losses linalg math "
    "nn quantization ragged random raw_ops.math sets signal sparse strings"
).split()
_REFUSED = (
    "cond case custom_gradient eval foldl foldr function group import_graph_def init_scope map_fn "
    "recompute_grad scan set_value switch_case variable_creator vectorized_map while_loop"
).split()
_REFUSED_WORDS = ("file", "library", "load", "numpy_func", "print", "py_func", "restore", "save")
_REFUSED_OPS = ("PyFunc", "File", "Save", "Restore", "Library", "Summary", "Print", "Iterator")


def code_in(config: Config, given: Container[str]) -> str | None:
    """Why an architecture may not be read; None if nothing in it would run foreign code.

    Args:
        config: the architecture.
        given: names of classes and functions that the user brings.
    """
    return next(_foreign(config, given), None)


def vocabulary_file(place: str) -> str:
    """Why a lookup layer that names a file or a URL is not read."""
    return (
        f"the model reads a vocabulary from {place!r}, outside of this file. Put the words into "
        "the model: layer.set_vocabulary([...]) in Python, and save it again."
    )


def _foreign(config: Config, given: Container[str]) -> Iterator[str]:
    if isinstance(config, list):
        for item in config:
            yield from _foreign(item, given)
    if not isinstance(config, dict):
        return
    kind, inner = config.get("class_name"), config.get("config")
    if isinstance(kind, str):
        details = inner if isinstance(inner, dict) else {}
        yield from _reasons(kind, config, details, given)
    for value in config.values():
        yield from _foreign(value, given)


def _reasons(
    kind: str, config: dict[str, Any], inner: dict[str, Any], given: Container[str]
) -> Iterator[str]:
    if kind in ("Lambda", "__lambda__") and not _is_given(inner, given):
        yield LAMBDA
    if kind.endswith(("Lookup", "TextVectorization")) and isinstance(inner.get("vocabulary"), str):
        yield vocabulary_file(inner["vocabulary"])
    if kind == "TFOpLambda" and not _computes(str(inner.get("function"))):
        yield _call(str(inner.get("function")))
    if kind == "TensorFlowOpLayer":
        op = str(inner.get("node_def"))
        if any(refused in op for refused in _REFUSED_OPS):
            yield _call(op[:60])
    if kind in ("ClassMethod", "InstanceMethod", "InstanceProperty"):
        name = str(inner.get("method_name", inner.get("attr_name", "")))
        if name.startswith("_"):
            yield _call(name)
    module, name = config.get("module"), config.get("registered_name") or kind
    own = module is None or str(module).split(".")[0] in ("keras", "tf_keras", "builtins")
    if kind == "function":
        name = str(config.get("config"))
        own = own and (module != "builtins" or not hasattr(builtins, name))
    if not own and name not in given and kind not in given:
        yield (
            f"the model uses {name!r} of {module!r}, which Keras does not know. Name the module "
            "that defines it with --custom-objects package.module (custom_objects={...})."
        )


def _is_given(inner: dict[str, Any], given: Container[str]) -> bool:
    """Whether a Lambda layer calls a function by a name that the user gave."""
    function = inner.get("function")
    if isinstance(function, dict):
        function = function.get("config") if function.get("class_name") == "function" else None
    by_name = inner.get("function_type", "function") == "function"
    return by_name and isinstance(function, str) and function in given


def _computes(name: str) -> bool:
    namespace, _, function = name.removeprefix("compat.v1.").rpartition(".")
    if function in _REFUSED or any(word in function for word in _REFUSED_WORDS):
        return False
    return not namespace or namespace in _NAMESPACES


def _call(name: str) -> str:
    return (
        f"the model calls {name!r}, which could do more than compute. If you trust the source of "
        "the file, allow it with --unsafe-load (unsafe_load=True)."
    )

"""Finds what in an architecture of Keras 2 does more than compute, before Keras reads it.

Keras 2 has no safe mode for HDF5 files, and in its own archives it imports any module that the
file names. So a name in a file has to be one of those below, or one that the user gave.
"""

from collections.abc import Container, Iterator
from typing import Any

from tfmp.converters.intake.trust.names import ALLOW, CLASSES, FUNCTIONS, METHODS, OPERATIONS
from tfmp.converters.shared.errors import Refusal

REBUILT = "build the model anew in a function, and name it with --architecture FILE.py:function"

LAMBDA = Refusal(
    "the model holds a Lambda layer, which is Python code that would run here",
    remedy="If you trust the source of the file, allow it with --unsafe-load (unsafe_load=True); "
    f"else {REBUILT}",
)

SAVED_MODEL = Refusal(
    "the model holds a TFSMLayer, which runs a SavedModel from outside of this file",
    remedy="Convert the SavedModel folder itself, or if you trust both, allow it with "
    "--unsafe-load (unsafe_load=True)",
)

_OWN_MODULES = ("keras", "tf_keras", "builtins")
_ACTIVATIONS = frozenset(
    name.removeprefix("keras.activations.")
    for name in FUNCTIONS
    if name.startswith("keras.activations.")
) | {"relu6"}


def code_in_architecture(config: Any, given: Container[str]) -> Refusal | None:
    """Why an architecture may not be read; None if nothing in it would run foreign code.

    Args:
        config: the architecture, as its JSON says it.
        given: names of classes and functions that the user brings.
    """
    named = (part for part in parts_of(config) if isinstance(part, dict) and "class_name" in part)
    return next((reason for part in named for reason in _reasons(part, given)), None)


def parts_of(config: Any) -> Iterator[Any]:
    """All parts of a text in JSON, whole ones before what is in them."""
    yield config
    if isinstance(config, dict | list):
        for part in config.values() if isinstance(config, dict) else config:
            yield from parts_of(part)


def vocabulary_file(place: str) -> Refusal:
    """Why a lookup layer that names a file or a URL is not read."""
    return Refusal(
        f"the model reads a vocabulary from {place!r}, outside of this file",
        remedy="Put the words into the model: layer.set_vocabulary([...]) in Python, and save it "
        "again",
    )


def unknown_object(place: str) -> Refusal:
    """Why a file that names a class or function of somebody's is not read."""
    return Refusal(
        f"the model uses {place}, which Keras does not know",
        remedy="Name the module that defines it with --custom-objects package.module "
        "(custom_objects={...})",
    )


def _reasons(config: dict[str, Any], given: Container[str]) -> Iterator[Refusal]:
    kind, inner = str(config["class_name"]), config.get("config")
    details = inner if isinstance(inner, dict) else {}
    if kind in _OP_LAYERS and kind not in given:
        called = _OP_LAYERS[kind](details)
        if called is not None:
            told = f"the model calls {called!r}, which could do more than compute"
            yield Refusal(told, remedy=ALLOW)
    elif kind in ("Lambda", "__lambda__"):
        if not _is_given(details, given):
            yield LAMBDA
    elif (name := _unknown(config, given)) is not None:
        module = config.get("module")
        yield unknown_object(f"{name!r} of {module!r}" if module else repr(name))
    if isinstance(details.get("vocabulary"), str) and kind not in given:
        yield vocabulary_file(details["vocabulary"])


def _unknown(config: dict[str, Any], given: Container[str]) -> str | None:
    """A class or function that is neither Keras's nor the user's; None if there is none.

    Files without modules go by the class, others by the registered name, and by the module if
    nothing is registered under it. Keras 2 registers every class of a user's, by its name at least.
    """
    if config["class_name"] == "function":
        names, known = [str(config.get("config"))], _ACTIVATIONS
    else:
        names, known = [str(config["class_name"])], CLASSES
        if config.get("registered_name"):
            names.append(str(config["registered_name"]))
    module = config.get("module")
    own = module is None or str(module).split(".")[0] in _OWN_MODULES
    for name in reversed(names):
        if name not in given and not (own and name.rpartition(">")[2] in known):
            return name
    if not own and len(names) == 1 and known is CLASSES:
        return names[0]
    return None


def _is_given(inner: dict[str, Any], given: Container[str]) -> bool:
    """Whether a Lambda layer calls a function by a name that the user gave."""
    function = inner.get("function")
    if isinstance(function, dict):
        function = function.get("config") if function.get("class_name") == "function" else None
    by_name = inner.get("function_type", "function") == "function"
    return by_name and isinstance(function, str) and function in given


def _function(inner: dict[str, Any]) -> str | None:
    """The function that a layer calls, unless it computes."""
    called = str(inner.get("function"))
    name = called.removeprefix("compat.v1.")
    raw = name.startswith("raw_ops.") and name.removeprefix("raw_ops.") in OPERATIONS
    return None if raw or name in FUNCTIONS else called


def _method(inner: dict[str, Any]) -> str | None:
    name, owner = str(inner.get("method_name", inner.get("attr_name"))), inner.get("cls_symbol")
    if owner not in (None, "RaggedTensor"):
        return f"{owner}.{name}"
    return None if name in METHODS else name


def _operation(inner: dict[str, Any]) -> str | None:
    """The operation that a layer holds as a message or as its JSON, unless it computes."""
    from google.protobuf.json_format import ParseDict, ParseError
    from google.protobuf.message import DecodeError
    from tensorflow.core.framework.node_def_pb2 import NodeDef

    written = inner.get("node_def")
    try:
        if isinstance(written, dict):
            op = ParseDict(written, NodeDef()).op
        else:
            op = NodeDef.FromString(str(written).encode()).op
    except (ParseError, DecodeError) as error:
        return f"node_def {str(written)[:60]} ({error})"
    return None if op in OPERATIONS else op


# The layers that call TensorFlow, and what each calls unless that computes.
_OP_LAYERS = {
    "ClassMethod": _method,
    "InstanceMethod": _method,
    "InstanceProperty": _method,
    "SlicingOpLambda": _function,
    "TFOpLambda": _function,
    "TensorFlowOpLayer": _operation,
}

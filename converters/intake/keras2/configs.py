"""Puts an old architecture into the words that tf_keras reads."""

import re
from collections.abc import Callable, Container
from typing import Any

from tfmp.converters.intake.keras2.archive import Archive, Config, rewritten
from tfmp.converters.intake.keras2.keras1 import in_words_of_keras_2

_OTHERS = ("float16", "bfloat16", "mixed_float16", "mixed_bfloat16", "float64")


# Of use to training alone. Initializers come as large as the weights, and all four may be foreign.
_TRAINING = re.compile(r"(^|_)(initializer|regularizer|constraint)$")


# Names by the sentence for the report that lists them.
Changes = dict[str, list[str]]
_POLICIES = "trained under {}: converted in float32 from the weights of the file"
_FUSED = "cuDNN's layers read as the plain LSTM and GRU: {}"
_STATEFUL = "stateful layers start from zeros in each call of the files: {}"


def readable(archive: Archive, given: Container[str], changes: Changes) -> Config:
    """The architecture of a file in the words of today's Keras 2.

    Args:
        archive: the file.
        given: names of classes that the user brings, whose words are their own.
        changes: where to note what was changed.

    Raises:
        InputError: a layer of Keras 1 has no counterpart.
    """

    def part(config: dict[str, Any]) -> Config:
        if set(config) == {"type", "value"}:  # a NumPy scalar, as Keras up to 2.2 wrote it
            return config["value"]
        if "dtype" in config:
            config["dtype"] = _dtype(config["dtype"], changes)
        kind, inner = config.get("class_name"), config.get("config")
        if not isinstance(kind, str) or not isinstance(inner, dict):
            return config
        written = kind
        if kind not in given:
            kind, inner = in_words_of_keras_2(kind, inner)
        if (rule := _LAYERS.get(kind)) is not None:
            kind, inner = rule(kind, inner, changes)
        if written not in given:
            inner = {key: value for key, value in inner.items() if not _TRAINING.search(key)}
        if inner.get("stateful") is True:
            _note(changes, _STATEFUL, inner.get("name"))
        if kind != written and config.get("module"):
            config |= {"module": "keras.layers", "registered_name": None}
        return {**config, "class_name": kind, "config": inner}

    return rewritten(archive.config, part)


def _dtype(value: Config, changes: Changes) -> Config:
    """A dtype or a policy; floats of 16 and 64 bits become float32."""
    name = value
    if isinstance(value, dict) and isinstance(value.get("config"), dict):
        name = value["config"].get("name")
    if name in _OTHERS:
        _note(changes, _POLICIES, name)
        return "float32"
    return value


def _note(changes: Changes, sentence: str, name: object) -> None:
    if str(name) not in (names := changes.setdefault(sentence, [])):
        names.append(str(name))


def _cudnn(kind: str, inner: dict[str, Any], changes: Changes) -> tuple[str, dict[str, Any]]:
    _note(changes, _FUSED, inner.get("name"))
    own = {"reset_after": True} if kind == "CuDNNGRU" else {}
    exact = {"activation": "tanh", "recurrent_activation": "sigmoid", **own}
    return kind.removeprefix("CuDNN"), {**inner, **exact}


def _gru(kind: str, inner: dict[str, Any], _: Changes) -> tuple[str, dict[str, Any]]:
    # Until Keras 2.1.3 there was one kind of GRU; TensorFlow 2 made the other one the default.
    return kind, {"reset_after": False, **inner}


def _embedding(kind: str, inner: dict[str, Any], _: Changes) -> tuple[str, dict[str, Any]]:
    # Early Keras 2 wrote the dtype of the ids here, which is the table's by now.
    if str(inner.get("dtype")).startswith("int"):
        inner = {key: value for key, value in inner.items() if key != "dtype"}
    return kind, inner


_Rule = Callable[[str, dict[str, Any], Changes], tuple[str, dict[str, Any]]]
_LAYERS: dict[str, _Rule] = {
    **dict.fromkeys(("CuDNNLSTM", "CuDNNGRU"), _cudnn),
    "Embedding": _embedding,
    "GRU": _gru,
    "GRUCell": _gru,
}

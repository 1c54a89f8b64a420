"""Reports to and from JSON (schema tfmp.drift/2)."""

import json
import math
import re
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias

from tfmp.converters.report.merge import recomputed
from tfmp.converters.report.model import FIRST_SCHEMA, SCHEMA, DriftReport
from tfmp.converters.shared.errors import InputError
from tfmp.shared.report_files import read_json

# The type of a dataclass's field: a class, a union, a tuple or a mapping.
FieldType: TypeAlias = Any

# What `json.dumps` takes and `json.loads` gives.
Json: TypeAlias = Any

# What limits a field, in its type's `Annotated`: the numbers or the form of texts.
Limit: TypeAlias = range | re.Pattern[str]

# Letters of a wrong value in a message: as many as a hash has.
_SHOWN = 64

# JSON has no word for these numbers; a bare NaN makes a document that strict readers refuse.
WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_json(report: DriftReport) -> str:
    """The report as a JSON document."""
    return json.dumps(report.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def load(path: str | Path) -> DriftReport:
    """Reads a report that was saved as JSON.

    Raises:
        InputError: the file is missing, is not JSON, or is not a report.
    """
    path = Path(path)
    try:
        document = read_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"cannot read the report {str(path)!r}: {error.strerror or error}. Name a JSON file "
            "that tfmp-convert wrote."
        ) from error
    except ValueError as error:
        raise InputError(
            f"{str(path)!r} is not JSON: {error}. Name a JSON file that tfmp-convert wrote."
        ) from error
    try:
        report = DriftReport.from_dict(document)
    except InputError as error:
        raise InputError(f"{str(path)!r}: {error}") from error
    if not report.candidates:
        raise InputError(
            f"{str(path)!r}: report.candidates is empty; the document was cut or changed. Write "
            "the report again with tfmp-convert."
        )
    return report


def encode(value: object) -> Json:
    """Dataclasses as objects, enums as their value, non-finite numbers as words.

    Anything with a method `to_json` is what that gives.
    """
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value) and not isinstance(value, type):
        names = [item.name for item in fields(value)]
        names.sort(key=lambda name: (name != "schema", name != "verdict"))  # read first
        return {name: encode(getattr(value, name)) for name in names}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value


def decode(kind: type[DriftReport], document: Json) -> DriftReport:
    """Reads a report from its JSON document.

    Raises:
        InputError: the schema is another one, or a key is missing or has the wrong type.
    """
    schema = document.get("schema") if isinstance(document, Mapping) else None
    if schema not in (SCHEMA, FIRST_SCHEMA):
        raise InputError(
            f"not a drift report: expected an object with schema {SCHEMA!r}, received "
            f"{schema if schema is not None else type(document).__name__!r}. Name a JSON file that "
            "tfmp-convert wrote; if a later tfmp did, update this one."
        )
    report = _decode_dataclass(kind, document, "report")
    if schema == FIRST_SCHEMA:
        return report
    try:
        report = recomputed(report)
        report.judged_by(report.budget)
    except InputError:
        raise
    except Exception as error:  # counts that cannot be together fail in any place
        raise InputError(
            f"the numbers of the report contradict one another ({type(error).__name__}: {error}); "
            "the document was changed. Write the report again with tfmp-convert."
        ) from error
    return report


def _decode(kind: FieldType, value: Json, where: str) -> object:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _expect_limited(_decode(arguments[0], value, where), arguments[1], where)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in arguments:
            return None
        (kind,) = (item for item in arguments if item is not type(None))
        return _decode(kind, value, where)
    if hasattr(kind, "from_json"):
        return _decode_own(kind, _expect(value, dict, where), where)
    if is_dataclass(kind):
        return _decode_dataclass(kind, value, where)
    if origin is tuple:
        items = _expect(value, list, where)
        return tuple(_decode(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(items))
    if origin in (dict, types.MappingProxyType) or origin is Mapping:
        entries = _expect(value, dict, where)
        return {
            _expect(key, str, f"a key of {where}"): _decode(arguments[1], item, f"{where}.{key}")
            for key, item in entries.items()
        }
    if kind is float:
        return _decode_float(value, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _decode_enum(kind, value, where)
    return _expect(value, kind, where)


def _decode_dataclass(kind: FieldType, value: Json, where: str) -> Any:
    entries = _expect(value, dict, where)
    hints = typing.get_type_hints(kind, include_extras=True)
    arguments = {}
    for item in fields(kind):
        if item.name in entries:
            arguments[item.name] = _decode(
                hints[item.name], entries[item.name], f"{where}.{item.name}"
            )
        elif item.default is MISSING and item.default_factory is MISSING:
            raise InputError(
                f"{where} has no {item.name!r}; the document was cut or changed. Write the "
                "report again with tfmp-convert."
            )
    return kind(**arguments)


def _decode_float(value: Json, where: str) -> float:
    if isinstance(value, str) and value in WORDS:
        return WORDS[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong_type(value, "a number", where)
    return float(_expect(value, type(value), where))


def _decode_own(kind: FieldType, entries: Json, where: str) -> object:
    """What has a form of its own, which it checks by itself."""
    try:
        return kind.from_json(entries)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def _decode_enum(kind: type[Enum], value: Json, where: str) -> Enum:
    try:
        return kind(value)
    except ValueError:
        names = ", ".join(str(item.value) for item in kind)
        raise _wrong_type(value, f"one of {names}", where) from None


def _expect(value: Json, kind: FieldType, where: str) -> Json:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        names = {dict: "an object", list: "a list", str: "a text", int: "a whole number"}
        raise _wrong_type(value, names.get(kind, f"a {kind.__name__}"), where)
    if kind is int and abs(value) > sys.float_info.max:
        raise _wrong_type(value, f"a number up to {sys.float_info.max:.2g}", where)
    if kind is str and value.encode(errors="replace").decode() != value:
        raise _wrong_type(value, "a text in Unicode, without halves of surrogate pairs", where)
    return value


def _expect_limited(value: Json, limit: Limit, where: str) -> Json:
    """A text that fits a pattern, or a whole number in a range."""
    if isinstance(limit, range):
        if value not in limit:
            raise _wrong_type(value, f"a number from {limit.start} to {limit.stop - 1}", where)
    elif not limit.fullmatch(value):
        raise _wrong_type(value, f"a text of the form {limit.pattern}", where)
    return value


def _wrong_type(value: Json, expected: str, where: str) -> InputError:
    text = repr(value)
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return InputError(
        f"{where} is {text} ({type(value).__name__}), expected {expected}; the document was "
        "changed. Write the report again with tfmp-convert."
    )

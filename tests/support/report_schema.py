"""The JSON Schema of drift reports, derived from the dataclasses that are the report.

The package publishes it as `converters/report/drift-2.schema.json`. After a new key:

    python tests/support/report_schema.py > converters/report/drift-2.schema.json
"""

import inspect
import json
import re
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum

from tfmp.converters.report.jsonio import WORDS, FieldType, Limit
from tfmp.converters.report.model import SCHEMA, DriftReport
from tfmp.shared.report_files import JsonObject

_SIMPLE = {str: "string", int: "integer", bool: "boolean"}


def schema() -> JsonObject:
    """The JSON Schema (draft 2020-12) of the document; keys that it does not name are allowed."""
    definitions: JsonObject = {}
    root = _of(DriftReport, definitions)
    document = definitions["DriftReport"]
    document["properties"]["schema"] = {"const": SCHEMA}
    document["required"].insert(0, "schema")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{SCHEMA.replace('/', ':')}",
        "title": f"Drift report, schema {SCHEMA}",
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


def _of(kind: FieldType, definitions: JsonObject) -> JsonObject:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        limit: Limit = arguments[1]
        limits: JsonObject = (
            {"minimum": limit.start, "maximum": limit.stop - 1}
            if isinstance(limit, range)
            else {"pattern": f"^{limit.pattern}$"}
        )
        return {**_of(arguments[0], definitions), **limits}
    if origin in (types.UnionType, typing.Union):
        options = [_of(item, definitions) for item in arguments if item is not type(None)]
        return {"anyOf": [*options, {"type": "null"}]}
    if origin is tuple:
        return {"type": "array", "items": _of(arguments[0], definitions)}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": _of(arguments[1], definitions)}
    if hasattr(kind, "to_json"):  # it has a form of its own
        return {"type": "object", "description": (inspect.getdoc(kind) or "").partition("\n")[0]}
    if is_dataclass(kind):
        return _of_dataclass(kind, definitions)
    if kind is float:
        return {"anyOf": [{"type": "number"}, {"enum": list(WORDS)}]}
    if issubclass(kind, Enum):
        return {"enum": [item.value for item in kind]}
    return {"type": _SIMPLE[kind]}


def _of_dataclass(kind: FieldType, definitions: JsonObject) -> JsonObject:
    name = kind.__name__
    if name not in definitions:
        definitions[name] = {}  # stands for it while its fields are read
        hints = typing.get_type_hints(kind, include_extras=True)
        texts = _field_texts(kind)
        definitions[name] = {
            "type": "object",
            "description": (inspect.getdoc(kind) or "").partition("\n")[0],
            "properties": {
                item.name: _described(_of(hints[item.name], definitions), texts.get(item.name))
                for item in fields(kind)
            },
            "required": [item.name for item in fields(kind) if _is_required(item)],
        }
    return {"$ref": f"#/$defs/{name}"}


def _is_required(item: Field[object]) -> bool:
    return item.default is MISSING and item.default_factory is MISSING


def _described(found: JsonObject, text: str | None) -> JsonObject:
    return {**found, "description": text} if text else found


def _field_texts(kind: FieldType) -> dict[str, str]:
    """The sentence on each field in the Attributes section of its class, or of one before it."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        _, _, section = (inspect.getdoc(each) or "").partition("Attributes:\n")
        joined = re.sub(r"\n {8}", " ", section)
        found |= re.findall(r"^ {4}(\w+): (.*)$", joined, re.MULTILINE)
    return found


if __name__ == "__main__":
    json.dump(schema(), sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")

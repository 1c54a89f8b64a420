"""Files and folders that users name for results: checked before the work, written after it."""

import json
import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from tfmp.shared.atomic_file import replacing
from tfmp.shared.wording import shown

# An object of a JSON document, as `json.dumps` takes it.
JsonObject: TypeAlias = dict[str, Any]

# Types of fields, with the limits that their values keep in any document.
Count: TypeAlias = Annotated[int, range(2**63)]
Sha256: TypeAlias = Annotated[str, re.compile("[0-9a-f]{64}")]
Base64: TypeAlias = Annotated[str, re.compile("[A-Za-z0-9+/]+={0,2}")]


def check_is_path(name: str, path: object) -> Path:
    """The path that a user passed as an argument.

    Raises:
        TypeError: it is no path.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{name} expects a path, a string or pathlib.Path; received {shown(path)}.")
    return Path(path)


def check_report_path(path: str | Path, suffixes: Sequence[str]) -> Path:
    """Accepts the path of a report that can be written.

    Raises:
        TypeError: it is no path.
        ValueError: it has another suffix, is a folder, or its folder does not exist or cannot be
            written to.
    """
    path = check_is_path("report", path)
    if path.suffix not in suffixes:
        raise ValueError(
            f"A report file expects one of the suffixes {', '.join(suffixes)}; received "
            f"{str(path)!r}."
        )
    if not path.parent.is_dir():
        raise ValueError(
            f"A report file expects a folder that exists; received {str(path)!r}. "
            f"Create {str(path.parent)!r} first."
        )
    if path.is_dir():
        raise ValueError(
            f"A report file expects the name of a file; {str(path)!r} is a folder. Choose another "
            "name."
        )
    with _refused_in_words("A report file", path):
        _check_writable(path.parent)
    return path


@contextmanager
def writing_report(path: Path) -> Iterator[Path]:
    """Gives a temporary path that takes the place of `path` on success.

    Raises:
        ValueError: the file cannot be written.
    """
    with _refused_in_words("A report file", path), replacing(path) as new:
        yield new


def check_folder(name: str, folder: str | Path, make: bool = True) -> Path:
    """A folder for results.

    Args:
        name: the argument, for the error.
        folder: its value.
        make: make it if it does not exist; without, whoever writes the first result makes it, so
            that a run which ends before leaves nothing.

    Raises:
        TypeError: it is no path.
        ValueError: it cannot be made or written to.
    """
    folder = check_is_path(name, folder)
    with _refused_in_words(name, folder):
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        _check_writable(next(each for each in (folder, *folder.parents) if os.path.lexists(each)))
    return folder


def _check_writable(folder: Path) -> None:
    # Rights on paper differ from rights in fact: root, read-only mounts, quotas.
    with tempfile.TemporaryFile(dir=folder):
        pass


@contextmanager
def _refused_in_words(name: str, path: Path) -> Iterator[None]:
    """Turns an error of the system into a sentence about the argument `name`."""
    try:
        yield
    except OSError as error:
        raise ValueError(
            f"{name} expects a folder that can be written to; received {str(path)!r}: "
            f"{error.strerror}. Choose another folder."
        ) from error


class NestedTooDeeplyError(ValueError, RecursionError):
    """A document that Python cannot read in its stack."""


def read_json(content: str | bytes) -> Any:
    """A document that somebody else may have written.

    Raises:
        ValueError: it is not JSON, or is nested too deeply.
    """
    try:
        return json.loads(content)
    except RecursionError:
        raise NestedTooDeeplyError("it is nested too deeply to be read") from None


def json_number(value: float | None) -> float | str | None:
    """A number as JSON can hold it: a number that is not finite becomes "nan", "inf" or "-inf"."""
    return value if value is None or math.isfinite(value) else str(value)


def plain(value: Any) -> Any:
    """A value as plain JSON types; a dataclass without a `to_dict` becomes its `plain_fields`."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return plain_fields(value)
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    return json_number(value) if isinstance(value, float) else value


def plain_fields(value: Any) -> JsonObject:
    """The fields of a dataclass that its `repr` shows, and the properties that `DERIVED` names."""
    names = [each.name for each in fields(value) if each.repr]
    return {name: plain(getattr(value, name)) for name in (*names, *getattr(value, "DERIVED", ()))}

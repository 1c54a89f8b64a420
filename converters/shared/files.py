"""Checks of paths before any work is done: nothing is overwritten by accident."""

import os
from pathlib import Path

from tfmp.converters.shared.errors import InputError
from tfmp.shared import report_files


def as_path(name: str, value: object) -> Path:
    """The path that a user passed as an argument.

    Raises:
        InputError: it is no path.
    """
    try:
        return report_files.check_is_path(name, value)
    except TypeError as error:
        raise InputError(str(error)) from None


def check_output(path: Path, suffix: str, force: bool) -> None:
    """Accepts a path that an output can be written to.

    Raises:
        InputError: wrong suffix, a name that is no text, no right to write there, or the file
            exists and `force` is False.
    """
    check_name(path, "Choose another output.")
    if path.suffix.lower() != suffix:
        raise InputError(
            f"expected an output file ending in {suffix}, received suffix {path.suffix!r}",
            "Rename the output",
            where=path,
        )
    check_folder(path.parent)
    if path.is_dir():
        raise InputError("is a folder", "Name a file", where=path)
    if path.exists() and not path.is_file():
        raise InputError("is a device or a pipe", "Name a file", where=path)
    # A link to nothing is somebody's, too.
    if os.path.lexists(path) and not force:
        raise InputError(
            "already exists",
            "Choose another output, or replace it with --force (force=True)",
            where=path,
        )


def check_name(path: Path, fix: str) -> None:
    """Raises `InputError` for a name that no library can be given; `fix` says what to do."""
    text = str(path)
    if "\0" in text or text.encode("utf-8", "replace").decode() != text:
        raise InputError(
            f"{text!r}: is not a name in UTF-8, as the libraries that write and run models need it",
            fix,
        )


# How a file begins that Git LFS has left in the place of a large one (git-lfs, docs/spec.md).
_POINTER = b"version https://git-lfs"


def check_no_pointer(path: Path) -> None:
    """Raises `InputError` for a file that Git LFS has not downloaded."""
    if not path.is_file():  # reading takes from a pipe, or waits for its writer
        return
    try:
        with path.open("rb") as file:
            pointer = file.read(len(_POINTER)) == _POINTER
    except OSError:
        return  # whoever opens it says why it cannot be read
    if pointer:
        fetch = f"`git lfs pull --include={path.name!r}` in its repository"
        raise InputError(
            "is a pointer of Git LFS, and the file itself is not here",
            f"Download it with {fetch}, or by the site's download link",
            where=path,
        )


def check_folder(folder: Path) -> None:
    """Raises `InputError` unless files can be made in `folder`, which may be missing itself."""
    try:
        report_files.check_folder("an output", folder, make=False)
    except ValueError as error:
        raise InputError(str(error)) from error

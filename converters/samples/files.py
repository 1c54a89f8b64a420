"""Files, folders and functions as streams of batches.

A file of any size is read from front to back, once, with one batch of it in memory.
"""

import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from tfmp.converters.samples.sources import (
    FORMS,
    RawBatch,
    RawLabels,
    Stream,
    called,
    count_rows,
    stream_of_array,
    user_error,
    without_labels,
)
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.tensors import TensorSpec
from tfmp.converters.shared.user_functions import import_function


def open_path(text: str, inputs: Sequence[TensorSpec]) -> Stream:
    """The samples of a file, a folder or a function named as package.module:function.

    Raises:
        InputError: the file is missing or unreadable, or there is no such function.
    """
    path = Path(text)
    if path.is_dir():
        from tfmp.converters.samples.images import open_folder

        return open_folder(path, inputs)
    if path.suffix.lower() in (".npz", ".npy"):
        if not path.is_file():
            raise InputError(f"there is no data file {text!r}. Check the path.")
        return _open_npz(path, inputs) if path.suffix.lower() == ".npz" else _open_npy(path, inputs)
    module, colon, function = text.rpartition(":")
    if colon and module and function.isidentifier() and not path.exists():
        return _call(text, module, function, inputs)
    missing = "has an unknown suffix" if path.exists() else "does not exist"
    raise InputError(f"data {text!r} {missing}; expected {FORMS}. Pass one of these.")


def _open_npy(path: Path, inputs: Sequence[TensorSpec]) -> Stream:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise _unreadable(path, error) from error
    return stream_of_array(str(path), array, inputs)


def load_labels(path: str | os.PathLike[str]) -> RawLabels:
    """Labels from a file: an array from .npy; from .npz one array, or one for each output.

    Raises:
        InputError: the file is missing or unreadable.
    """
    path = Path(path)
    if path.suffix.lower() not in (".npz", ".npy"):
        raise InputError(f"labels {str(path)!r}: expected an .npy or .npz file. Save them as one.")
    if not path.is_file():
        raise InputError(f"there is no labels file {str(path)!r}. Check the path.")
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            arrays = {name: loaded[name] for name in loaded.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise _unreadable(path, error) from error
    _, labels = without_labels(arrays, ())  # the data's own file may be named for its labels
    if labels is not None:
        return labels
    return next(iter(arrays.values())) if len(arrays) == 1 else arrays


def _open_npz(path: Path, inputs: Sequence[TensorSpec]) -> Stream:
    try:
        with zipfile.ZipFile(path) as archive:
            headers = {}
            for member in archive.namelist():
                with archive.open(member) as file:
                    headers[member.removesuffix(".npy")] = _Header.read(file)
            stand_ins = {name: header.stand_in() for name, header in headers.items()}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise _unreadable(path, error) from error
    whole, labels = without_labels(stand_ins, inputs)
    rows = count_rows(str(path), whole, labels)
    return Stream(str(path), lambda size: _read_npz(path, headers, inputs, rows, size), rows, whole)


@dataclass(frozen=True)
class _Header:
    """Shape and dtype of an array in a file, known before its values are read."""

    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool

    def stand_in(self) -> np.ndarray:
        """An array of this shape and dtype that takes no memory."""
        return np.broadcast_to(np.zeros((), self.dtype), self.shape)

    @classmethod
    def read(cls, file: IO[bytes]) -> "_Header":
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
        else:
            raise ValueError(f"array format {version} is not supported")
        if dtype.hasobject:
            raise ValueError("it holds pickled objects, which could run code when loaded")
        return cls(shape, dtype, fortran and len(shape) > 1)


def _read_npz(
    path: Path,
    headers: Mapping[str, _Header],
    inputs: Sequence[TensorSpec],
    rows: int,
    size: int,
) -> Iterator[RawBatch]:
    with zipfile.ZipFile(path) as archive:
        members = {name.removesuffix(".npy"): archive.open(name) for name in archive.namelist()}
        try:
            readers = {
                name: _reader(members[name], header, size) for name, header in headers.items()
            }
            for _ in range(0, rows, size):
                batch = {name: next(reader) for name, reader in readers.items()}
                yield without_labels(batch, inputs)
        except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            if isinstance(error, InputError):
                raise
            raise _unreadable(path, error) from error
        finally:
            for member in members.values():
                member.close()


def _reader(file: IO[bytes], header: _Header, size: int) -> Iterator[np.ndarray]:
    """Batches of an array that is read from its file bit by bit."""
    _Header.read(file)
    if not header.shape:  # the same for all samples
        value = np.frombuffer(file.read(), header.dtype)[0]
        while True:
            yield np.asarray(value)
    rows = header.shape[0]
    if header.fortran:  # the first sample ends where the file ends: nothing can be streamed
        flat = np.frombuffer(file.read(), header.dtype)
        array = flat.reshape(header.shape, order="F")
        yield from (array[start : start + size] for start in range(0, rows, size))
        return
    row_bytes = header.dtype.itemsize * int(np.prod(header.shape[1:], dtype=np.int64))
    for start in range(0, rows, size):
        count = min(size, rows - start)
        content = file.read(count * row_bytes)
        if len(content) != count * row_bytes:
            raise EOFError("the file ends before its last sample")
        yield np.frombuffer(content, header.dtype).reshape(count, *header.shape[1:])


def _call(text: str, module: str, function: str, inputs: Sequence[TensorSpec]) -> Stream:
    """Calls `package.module:function` of the user's, found from the current folder too."""
    try:
        found = import_function(f"data {text!r}", module, function)
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's module does when it is imported
        raise user_error(text, error) from error
    return called(text, found, inputs)


def _unreadable(path: Path, error: Exception) -> InputError:
    reason = str(error).rstrip(".")
    if "pickled (object)" in reason or "Python objects" in reason:
        # NumPy says so of any file that it does not know, and how to have it run.
        reason = "it is no array file, or it holds pickled objects, which could run code"
    return InputError(
        f"cannot read data file {str(path)!r}: {reason}. Write it with np.savez(path, "
        "INPUT_NAME=array), or np.save(path, array) for a model with one input."
    )

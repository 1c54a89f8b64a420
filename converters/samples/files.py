"""Files, folders and functions as streams of batches.

A file of any size is read from front to back, once, with one batch of it in memory.
"""

import math
import os
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import numpy as np

from tfmp.converters.samples.arrays import (
    Header,
    headers_of,
    memory_map,
    name_of,
    read_all,
    readable,
    values,
    whole,
)
from tfmp.converters.samples.sources import (
    FORMS,
    RawBatch,
    RawLabels,
    Stream,
    called,
    count_rows,
    stream_of_arrays,
    without_labels,
)
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.files import check_no_pointer
from tfmp.converters.shared.memory import check_memory
from tfmp.converters.shared.tensors import TensorSpec
from tfmp.converters.shared.user_functions import import_function


def open_path(text: str, inputs: Sequence[TensorSpec]) -> Stream:
    """The samples of a file, a folder or a function named as FILE.py:function.

    Raises:
        InputError: the file is missing or unreadable, or there is no such function.
    """
    path = Path(text)
    if path.is_dir():
        from tfmp.converters.samples.images import open_folder

        return open_folder(path, inputs)
    if path.suffix.lower() in (".npz", ".npy"):
        _check_file(path, "data")
        if path.suffix.lower() == ".npz":
            return _open_npz(path, inputs)
        with readable(path):
            array = memory_map(path)
        return stream_of_arrays(str(path), array)
    module, colon, function = text.rpartition(":")
    if colon and module and function.isidentifier() and not path.exists():
        return called(text, import_function(f"data {text!r}", module, function), inputs)
    missing = "has an unknown suffix" if path.exists() else "does not exist"
    raise InputError(
        f"data {text!r} {missing}; expected {FORMS}",
        "Pass one of these",
    )


def _check_file(path: Path, kind: str) -> None:
    if not path.is_file():
        raise InputError(f"there is no {kind} file {str(path)!r}", "Check the path")
    check_no_pointer(path)


def load_labels(path: str | os.PathLike[str]) -> RawLabels:
    """Labels from a file: an array from .npy; from .npz one array, or one for each output.

    Raises:
        InputError: the file is missing or unreadable.
    """
    path = Path(path)
    if path.suffix.lower() not in (".npz", ".npy"):
        raise InputError(
            f"labels {str(path)!r}: expected an .npy or .npz file",
            "Save them as one",
        )
    _check_file(path, "labels")
    with readable(path):
        if path.suffix.lower() == ".npy":
            return memory_map(path)
        arrays = read_all(path)
    _, labels = without_labels(arrays, ())  # the data's own file may be named for its labels
    if labels is not None:
        return labels
    return next(iter(arrays.values())) if len(arrays) == 1 else arrays


def _open_npz(path: Path, inputs: Sequence[TensorSpec]) -> Stream:
    with readable(path):
        with zipfile.ZipFile(path) as archive:
            headers = headers_of(archive)
        stand_ins = {name: header.stand_in() for name, header in headers.items()}
    names, notes = _names(stand_ins, inputs)
    arrays, labels = without_labels({new: stand_ins[name] for name, new in names.items()}, inputs)
    rows = count_rows(str(path), arrays, labels)

    def batches(size: int) -> Iterator[RawBatch]:
        return _read_npz(path, inputs, names, rows, size)

    return Stream(str(path), batches, rows, arrays, notes=notes)


# The arrays of `mnist.npz` and other data sets that Keras loads.
_HELD_OUT = {"x_test": "x", "y_test": "y"}
_SPLIT = {*_HELD_OUT, "x_train", "y_train"}


def _names(
    found: Collection[str], inputs: Sequence[TensorSpec]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The arrays of a file that are read, with the names they are read by; and what to tell."""
    if set(found) != _SPLIT or len(inputs) != 1 or inputs[0].name in _SPLIT:
        return {name: name for name in found}, ()
    return _HELD_OUT, ("its arrays x_test and y_test were read; the others are for training",)


def _read_npz(
    path: Path, inputs: Sequence[TensorSpec], names: Mapping[str, str], rows: int, size: int
) -> Iterator[RawBatch]:
    with readable(path), zipfile.ZipFile(path) as archive, ExitStack() as stack:
        readers = {}
        for member in archive.namelist():
            if (name := name_of(member)) not in names:
                continue
            file = stack.enter_context(archive.open(member))
            what = f"array {name!r} of data file {str(path)!r}"
            readers[names[name]] = _reader(what, file, size)
        for _ in range(0, rows, size):
            batch = {name: next(reader) for name, reader in readers.items()}
            yield without_labels(batch, inputs)


def _reader(what: str, file: IO[bytes], size: int) -> Iterator[np.ndarray]:
    """Batches of an array that is read from its file bit by bit."""
    header = Header.read(file)
    if not header.shape:  # the same for all samples
        value = whole(file, header)
        while True:
            yield value
    rows = header.shape[0]
    if header.fortran:  # the first sample ends where the file ends: nothing can be streamed
        check_memory(f"{what}, which is in Fortran order,", header.nbytes)
        array = whole(file, header)
        yield from (array[start : start + size] for start in range(0, rows, size))
        return
    check_memory(what, min(size, rows) * header.row_bytes)
    for start in range(0, rows, size):
        count = min(size, rows - start)
        flat = values(file, header.dtype, count * math.prod(header.shape[1:]))
        yield flat.reshape(count, *header.shape[1:])

"""Arrays in `.npy` and `.npz` files, which may be damaged, or made to be.

A header is believed only where no sample is empty and what is read at once fits into memory. NumPy
evaluates headers, and tells of damage in many ways.
"""

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.memory import check_memory
from tfmp.shared.wording import one_line

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Header:
    """An array in a file, before its values are read.

    Attributes:
        shape: its shape.
        dtype: the dtype of its values.
        fortran: whether the first axis is the one that varies fastest.
        start: the place of its first value, in bytes behind that of the header.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool
    start: int

    @classmethod
    def read(cls, file: IO[bytes]) -> "Header":
        """Reads the header and leaves the file at the first value.

        Raises:
            Exception: it is none that could be true; see `readable`.
        """
        version = np.lib.format.read_magic(file)
        # Version 3 differs in the alphabet of names only, which arrays of numbers do not have.
        read = np.lib.format.read_array_header_1_0
        if version > (1, 0):
            read = np.lib.format.read_array_header_2_0
        try:
            shape, fortran, dtype = read(file)
        except Exception as error:  # NumPy evaluates it as Python's text
            raise ValueError("the header of an array is damaged") from error
        if dtype.hasobject:
            raise ValueError("it holds pickled objects, which could run code when loaded")
        row = math.prod(shape[1:]) * dtype.itemsize
        if shape[:1] != (0,) and row <= 0:
            raise ValueError(f"its shape {shape} and type {dtype} leave no value for a sample")
        return cls(shape, dtype, fortran and len(shape) > 1, file.tell())

    @property
    def nbytes(self) -> int:
        """Bytes of all values."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def row_bytes(self) -> int:
        """Bytes of one sample."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    def stand_in(self) -> np.ndarray:
        """An array of this shape and dtype that takes no memory."""
        return np.broadcast_to(np.zeros((), self.dtype), self.shape)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Says of a file that something in it cannot be read.

    Raises:
        InputError: anything was raised inside: NumPy and zipfile raise every kind of exception for
            bytes that are no array.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        reason = one_line(error).rstrip(".") or type(error).__name__
        raise InputError(
            f"cannot read data file {str(path)!r}: {reason[:300]}",
            "Write it with np.savez(path, INPUT_NAME=array), or np.save(path, array) for a model "
            "with one input",
        ) from error


def memory_map(path: Path) -> np.ndarray:
    """The array of an `.npy` file, read where it is looked at; see `readable`."""
    with path.open("rb") as file:
        header = Header.read(file)
    if not header.nbytes:
        return np.empty(header.shape, header.dtype)
    flat = np.memmap(path, header.dtype, "r", header.start, (math.prod(header.shape),))
    return flat.reshape(header.shape, order="F" if header.fortran else "C")


def read_all(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file by name; see `readable`.

    Raises:
        InputError: they do not fit into memory.
    """
    with zipfile.ZipFile(path) as archive:
        headers = headers_of(archive)
        if not headers:
            raise ValueError("it holds no arrays")
        needed = sum(header.nbytes for header in headers.values())
        check_memory(f"data file {str(path)!r}", needed)
        arrays = {}
        for member in archive.namelist():
            with archive.open(member) as file:
                arrays[name_of(member)] = whole(file, Header.read(file))
        return arrays


def headers_of(archive: zipfile.ZipFile) -> dict[str, Header]:
    """The headers of the arrays in an archive, by name; see `readable`."""
    headers = {}
    for member in archive.namelist():
        with archive.open(member) as file:
            headers[name_of(member)] = Header.read(file)
    return headers


def name_of(member: str) -> str:
    """The name of an array by that of its file in an archive."""
    return member.removesuffix(".npy")


def whole(file: IO[bytes], header: Header) -> np.ndarray:
    """All values of an array behind its header."""
    flat = values(file, header.dtype, math.prod(header.shape))
    return flat.reshape(header.shape, order="F" if header.fortran else "C")


def values(file: IO[bytes], dtype: np.dtype, count: int) -> np.ndarray:
    """The next values of a file.

    Raises:
        EOFError: there are fewer.
    """
    array = np.empty(count, dtype)
    rest = memoryview(array.view(np.uint8).data if count else b"")
    while rest:  # memory is taken as it is filled
        read = file.read(min(len(rest), _CHUNK_BYTES))
        if not read:
            raise EOFError("the file ends before its last sample")
        rest[: len(read)] = read
        rest = rest[len(read) :]
    return array

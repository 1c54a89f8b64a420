"""Array files that are damaged, or made to do harm, are read whole or refused in a sentence."""

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tfmp.converters.samples.data import open_data
from tfmp.converters.shared import memory
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.tensors import TensorSpec

INPUTS = (TensorSpec("x", (None, 3), "float32"),)
X = np.arange(24, dtype=np.float32).reshape(8, 3)


def stored(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def headed(text: str, body: bytes = bytes(96)) -> bytes:
    """An .npy file with a header of one's own."""
    head = text.encode("latin1").ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + body


def described(shape: str, dtype: str = "'<f4'", fortran: bool = False) -> str:
    return f"{{'descr': {dtype}, 'fortran_order': {fortran}, 'shape': {shape}}}"


def zipped(content: bytes, flags: int = 0, method: int = 0) -> bytes:
    """An .npz file of one array, with flags and a method of compression that it does not have."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x.npy", content)
    found = bytearray(file.getvalue())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = found.find(mark)
        found[start + place] |= flags
        found[start + place + 2] |= method
    return bytes(found)


def read(path: Path) -> int:
    """The number of samples in a file, all of them read."""
    return sum(len(batch["x"]) for batch in open_data(str(path), INPUTS, batch_size=3).batches())


HEADERS = {
    "negative": (described("(8, -3)"), "leave no value for a sample"),
    "endless rows of nothing": (described(f"({10**18}, 0)"), "leave no value for a sample"),
    "past 64 bits": (described(f"(8, {10**30})"), ""),
    "code": (described("(8, 3)", "'|O'"), "pickled objects, which could run code"),
    "an expression": ("__import__('os')", "the header of an array is damaged"),
    "too short": (described("(80, 3)"), ""),
}


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
@pytest.mark.parametrize("kind", HEADERS)
def test_a_header_that_cannot_be_true_is_refused(kind: str, suffix: str, tmp_path: Path):
    text, told = HEADERS[kind]
    content = headed(text)
    path = tmp_path / f"data{suffix}"
    path.write_bytes(zipped(content) if suffix == ".npz" else content)
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value).startswith(f"cannot read data file {str(path)!r}: ")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "allow_pickle" not in str(caught.value)
    with pytest.raises(InputError):  # as labels they are no better
        open_data({"x": X}, INPUTS, str(path))


@pytest.mark.parametrize(
    ("flags", "method", "told"),
    [
        (1, 0, "is encrypted, password required"),
        (0x20, 0, "compressed patched data"),
        (0, 99, "compression method is not supported"),
    ],
)
def test_an_archive_that_cannot_be_unpacked(flags: int, method: int, told: str, tmp_path: Path):
    path = tmp_path / "data.npz"
    path.write_bytes(zipped(stored(X), flags, method))
    with pytest.raises(InputError, match=told):
        read(path)


def test_a_bomb_is_told_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A gigabyte of zeros, in a file of a megabyte that is not even whole."""
    monkeypatch.setattr(memory, "_chosen", [100 << 20])
    path = tmp_path / "bomb.npz"
    path.write_bytes(zipped(headed(described("(90000000, 3)", fortran=True))))
    with pytest.raises(
        InputError, match=r"Fortran order, asks for 1\.0 GiB .* limit of 100\.0 MiB"
    ):
        read(path)
    with pytest.raises(InputError, match=r"asks for 1\.0 GiB of memory at once.*--max-memory"):
        open_data({"x": X}, INPUTS, str(path))
    monkeypatch.setattr(memory, "_chosen", [2 << 30])
    with pytest.raises(InputError, match="the file ends before its last sample"):
        read(path)

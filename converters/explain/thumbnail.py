"""Samples as small pictures, in PNG, without an imaging library."""

import base64
import struct
import zlib

import numpy as np

from tfmp.converters.shared.tensors import Batch

# Longest side in pixels: ten of them, embedded, leave a report far below 400 KB.
SIDE = 48

# By number of channels: PNG's color types (ISO/IEC 15948, table 11.1).
_COLOR_TYPES = {1: 0, 3: 2, 4: 6}


def thumbnail(inputs: Batch) -> str | None:
    """The first input that is an image, as PNG in base64; None if there is none.

    Args:
        inputs: of one sample, by name, without the batch axis.
    """
    for array in inputs.values():
        pixels = _pixels(array)
        if pixels is not None:
            return base64.b64encode(png(_to_bytes(_shrunk(pixels)))).decode("ascii")
    return None


def _pixels(array: np.ndarray) -> np.ndarray | None:
    """As (height, width, channels), if three axes of such sizes are there."""
    if array.ndim != 3 or array.dtype.kind not in "fiu" or not array.size:
        return None
    last, first = array.shape[-1] in _COLOR_TYPES, array.shape[0] in _COLOR_TYPES
    # An image has more rows and columns than channels; that tells both layouts apart.
    if last and (not first or array.shape[0] >= array.shape[-1]):
        return array if min(array.shape[:2]) > 1 else None
    if first:
        return np.moveaxis(array, 0, -1) if min(array.shape[1:]) > 1 else None
    return None


def _shrunk(pixels: np.ndarray) -> np.ndarray:
    """Means over blocks, so that no side is longer than `SIDE`."""
    values = np.nan_to_num(pixels.astype(np.float64), posinf=0.0, neginf=0.0)
    for axis in (0, 1):
        length = values.shape[axis]
        if length > SIDE:
            edges = np.arange(SIDE) * length // SIDE
            sizes = np.diff([*edges, length])
            sums = np.add.reduceat(values, edges, axis=axis)
            values = sums / sizes.reshape([-1 if i == axis else 1 for i in range(3)])
    return values


def _to_bytes(values: np.ndarray) -> np.ndarray:
    """0 to 255, from whichever of the usual ranges the values are in."""
    low, high = float(values.min()), float(values.max())
    if low >= 0 and high <= 1:
        scaled = values * 255
    elif low >= 0 and 1.5 < high <= 255:
        scaled = values
    elif low >= -1 and high <= 1:
        scaled = (values + 1) * 127.5
    else:
        scaled = (values - low) * (255 / ((high - low) or 1.0))
    return np.clip(np.rint(scaled), 0, 255).astype(np.uint8)


def png(pixels: np.ndarray) -> bytes:
    """A PNG file of (height, width, 1, 3 or 4 channels) bytes."""
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOR_TYPES[channels], 0, 0, 0)
    # Every row begins with the number of its filter: 0, none.
    rows = np.pad(pixels.reshape(height, -1), ((0, 0), (1, 0)))
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", header),
            _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

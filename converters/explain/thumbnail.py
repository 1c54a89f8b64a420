"""Samples as small pictures, in PNG."""

import base64
import io

import numpy as np

from tfmp.converters.shared.tensors import Batch

# Longest side in pixels: ten of them, embedded, leave a report far below 400 KB.
SIDE = 48

# Grey, RGB and RGBA.
_CHANNELS = (1, 3, 4)


def thumbnail(inputs: Batch) -> str | None:
    """The first input that is an image, as PNG in base64; None without an image.

    Args:
        inputs: inputs of one sample by name, without the batch axis.
    """
    for array in inputs.values():
        pixels = _pixels(array)
        if pixels is not None:
            return base64.b64encode(_png(_to_bytes(pixels))).decode("ascii")
    return None


def _pixels(array: np.ndarray) -> np.ndarray | None:
    """As (height, width, channels), if three axes of such sizes are there."""
    if array.ndim != 3 or array.dtype.kind not in "fiu" or not array.size:
        return None
    last, first = array.shape[-1] in _CHANNELS, array.shape[0] in _CHANNELS
    # An image has more rows and columns than channels; that tells both layouts apart.
    if last and (not first or array.shape[0] >= array.shape[-1]):
        return array if min(array.shape[:2]) > 1 else None
    if first:
        return np.moveaxis(array, 0, -1) if min(array.shape[1:]) > 1 else None
    return None


def _to_bytes(values: np.ndarray) -> np.ndarray:
    """Bytes of 0 to 255, from the smallest to the largest value."""
    values = values.astype(np.float64)
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    scaled = (np.nan_to_num(values, nan=low, posinf=low) - low) * (255 / ((high - low) or 1.0))
    return np.clip(np.rint(scaled), 0, 255).astype(np.uint8)


def _png(pixels: np.ndarray) -> bytes:
    """A PNG file of (height, width, channels) bytes, made smaller by means where it is large."""
    from PIL import Image

    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[-1] == 1 else pixels)
    image.thumbnail((SIDE, SIDE), Image.Resampling.BOX)
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return file.getvalue()

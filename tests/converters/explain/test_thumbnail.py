"""Thumbnails, as an imaging library reads them."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from tfmp.converters.explain.thumbnail import SIDE, thumbnail


def opened(array: np.ndarray) -> np.ndarray:
    text = thumbnail({"image": array})
    assert text is not None
    return np.array(Image.open(io.BytesIO(base64.b64decode(text))))


def ramp(*shape: int) -> np.ndarray:
    return np.linspace(0, 255, int(np.prod(shape))).reshape(shape).astype(np.uint8)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_a_small_picture_keeps_every_pixel(channels: int) -> None:
    pixels = ramp(6, 9, channels)
    assert np.array_equal(opened(pixels).reshape(pixels.shape), pixels)
    first = np.moveaxis(pixels, -1, 0)
    assert np.array_equal(opened(first).reshape(pixels.shape), pixels), "channels first"


def test_any_range_becomes_bytes() -> None:
    pixels = ramp(8, 8, 3)
    found = opened(pixels.astype(np.float32) * (4 / 255) - 2)
    assert np.abs(found.astype(int) - pixels).max() <= 1


def test_a_large_picture_becomes_small_by_means() -> None:
    pixels = np.zeros((3 * SIDE, 2 * SIDE + 1, 1), np.float32)
    pixels[:, : SIDE + 1] = 1.0
    found = opened(pixels)
    assert found.shape == (SIDE, 2 * SIDE // 3)
    assert found[:, 0].min() == 255
    assert found[:, -1].max() == 0


def test_values_that_are_not_finite_do_not_blind_the_rest() -> None:
    pixels = ramp(4, 4, 1).astype(np.float32) / 255
    pixels[0, 0] = np.nan
    assert opened(pixels)[3, 3] == 255


@pytest.mark.parametrize("shape", [(10,), (7, 5), (1, 20, 1), (20, 20, 8), (0, 4, 3)], ids=str)
def test_what_is_no_picture_has_none(shape: tuple[int, ...]) -> None:
    assert thumbnail({"x": np.ones(shape, np.float32)}) is None


def test_the_first_picture_of_several_inputs_is_taken() -> None:
    assert thumbnail({"ids": np.ones(3), "image": ramp(4, 4, 1)}) is not None
    assert thumbnail({"words": np.full((4, 4, 3), "a", dtype=object)}) is None

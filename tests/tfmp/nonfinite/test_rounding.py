"""Differences that 16 bits round off: data that lose them, and data that do not."""

import numpy as np
import pytest

from tfmp.nonfinite.rounding import rounded_off
from tfmp.shared.numerics import BFLOAT16, FLOAT16

RNG = np.random.default_rng(0)
NORMAL = RNG.standard_normal


def levels() -> np.ndarray:
    """Series of prices, each on a level of its own: the steps are small, the levels differ."""
    steps = np.cumsum(0.03 * NORMAL((32, 50, 1)), axis=1)
    return np.exp(5 + NORMAL((32, 1, 1))) + steps


def pixels(mean=128.0, spread=60.0) -> np.ndarray:
    return np.clip(np.rint(mean + spread * NORMAL((16, 24, 24, 3))), 0, 255)


LOST = {
    "kelvin": 288.15 + 0.1 * NORMAL((32, 24)),
    "one number a sample": 19000 + 100 * RNG.random(32),
    "prices on many levels": levels(),
    "one column of many": np.concatenate([NORMAL((32, 20)), 300 + 0.05 * NORMAL((32, 1))], axis=1),
}

KEPT = {
    "standardized": NORMAL((32, 8)),
    "pixels": pixels(),
    "pixels / 255": pixels() / 255,
    "one-hot": np.eye(10)[RNG.integers(0, 10, 64)],
    "heavy tails": RNG.standard_cauchy((64, 8)),
    "16-bit sound": np.rint(3000 * NORMAL((8, 8000))),
    "constant": np.full((32, 4), 288.15),
    "constant but for float32": np.float32(288.15 + 1e-5 * NORMAL((32, 4))),
    "two samples": 5 + 0.001 * NORMAL((2, 8)),
    "no sample": np.zeros((0, 8)),
    "a scalar": np.float32(3.0),
    "not finite": np.where(RNG.random((32, 4)) < 0.1, np.nan, NORMAL((32, 4))),
}


@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("name", LOST)
def test_data_that_lose_differences(name, fmt):
    assert rounded_off(np.float32(LOST[name]), fmt) is not None


@pytest.mark.parametrize("fmt", [FLOAT16, BFLOAT16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("name", KEPT)
def test_data_that_keep_their_differences(name, fmt):
    assert rounded_off(np.float32(KEPT[name]), fmt) is None


def test_numbers_too_small_for_the_format():
    tiny = np.float32(1e-9 * NORMAL((32, 4)))
    assert rounded_off(tiny, FLOAT16) is not None
    assert rounded_off(tiny, BFLOAT16) is None


def test_the_numbers_of_the_worst_feature():
    x = np.concatenate([NORMAL((256, 1)), 288.15 + 0.1 * NORMAL((256, 1))], axis=1)
    lost = rounded_off(x, FLOAT16)
    assert (lost.feature, lost.spacing) == (1, 0.25)
    assert lost.size == pytest.approx(288.15, abs=0.1)
    assert lost.spread == pytest.approx(0.1, rel=0.2)
    assert rounded_off(x[:, 1], FLOAT16).feature is None

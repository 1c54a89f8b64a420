"""Crossover points, named in words: where they are, and where there is none."""

import pytest

from tfmp.machine.measuring import Timing
from tfmp.sweep.crossover import ALIKE, FASTER, SLOWER, Crossover, crossover

SIZES = (8, 32, 128, 512)


def judged(*found: str) -> Crossover:
    return Crossover("mixed_float16", "float32", "training", "batch", SIZES[: len(found)], found)


@pytest.mark.parametrize(
    ("found", "start", "text"),
    [
        ((FASTER,) * 4, 8, "is faster than float32 at every batch from 8 to 512"),
        ((SLOWER,) * 4, None, "is slower than float32 at every batch from 8 to 512"),
        ((ALIKE,) * 4, None, "is neither faster nor slower than float32 beyond noise"),
        ((ALIKE, ALIKE, FASTER, FASTER), 128, "is faster than float32 from batch 128 on"),
        (
            (SLOWER, ALIKE, FASTER, FASTER),
            128,
            "is faster than float32 from batch 128 on, and slower at batch 8",
        ),
        (
            (FASTER, FASTER, SLOWER, SLOWER),
            None,
            "is faster than float32 at batch 8, 32 only, and slower at batch 128, 512",
        ),
        ((FASTER, ALIKE, FASTER, FASTER), 128, "is faster than float32 at batch 8, 128, 512 only"),
        ((ALIKE, SLOWER, ALIKE, ALIKE), None, "is slower than float32 at batch 32"),
        ((FASTER,), 8, "is faster than float32 at batch 8"),
        ((SLOWER,), None, "is slower than float32 at batch 8"),
    ],
)
def test_words(found, start, text):
    assert judged(*found).faster_from == start
    assert str(judged(*found)) == f"training: mixed_float16 {text}"


def test_noise_is_no_crossover():
    base = Timing((1.0, 1.1, 0.9, 1.0, 1.1, 0.9, 1.0, 1.1))
    alike = Timing((1.1, 1.0, 0.9, 1.1, 1.0, 0.9, 1.1, 0.9))
    half = Timing(tuple(value / 2 for value in base.seconds))
    found = crossover("b", "a", "x", "batch", [(1, half, base), (2, base, alike), (3, base, half)])
    assert found.found == (SLOWER, ALIKE, FASTER)

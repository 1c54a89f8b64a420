"""Numbers that a piece of code may get: seeded draws of the sizes that were seen, and altered ones.

Epsilons, masks and growing squares are harmless in many a first batch, and show only elsewhere.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

AS_SEEN, SMALL, LARGEST = "numbers as seen", "numbers x 1/64", "numbers x 128"
ZEROS, CONSTANT_ROWS, RAW = "rows of zeros", "constant rows", "inputs up to 3e4"

# Far from what was seen, only what no NaN tells of counts, such as the quotient of infinite norms.
FAR = (LARGEST, RAW)
FLAT = (ZEROS, CONSTANT_ROWS)

_FACTORS = (2, 16, 128)
_SHRINKING = 64

# Inputs of a model may reach it, unscaled: times, counts, amounts of money.
_RAW_SIZE = 3e4


@dataclass(frozen=True)
class Given:
    """Numbers for one input of a piece.

    Attributes:
        values: the draws.
        is_fixed: they are flags: zeros and ones, such as masks.
        is_bounded: they never grow: shares, or results of a tanh.
        is_raw: they are an input of the model, which nothing scales.
    """

    values: np.ndarray
    is_fixed: bool
    is_bounded: bool
    is_raw: bool


def drawn(
    seen: np.ndarray | None, shape: tuple[int, ...], seed: int, is_bounded: bool, is_raw: bool
) -> Given:
    """Normal numbers at the next power of two to what was seen, with its sign and in its range.

    Whole numbers, such as flags and positions, are taken as they are.

    Args:
        seen: the values; None in a loop that is being traced.
        shape: their shape.
        seed: of the draw.
        is_bounded, is_raw: as in `Given`.
    """
    values = np.random.default_rng(seed).standard_normal(shape, "float32")
    if seen is None or not seen.size or not np.isfinite(seen).all() or not seen.any():
        return Given(values, False, is_bounded, is_raw)
    if (seen == np.rint(seen)).all():
        return Given(seen, bool((np.abs(seen) <= 1).all()), is_bounded, is_raw)
    values = values * np.float32(2.0 ** np.ceil(np.log2(np.sqrt(np.mean(np.square(seen))))))
    most = np.float32(2.0 ** np.ceil(np.log2(np.abs(seen).max())))
    if seen.min() >= 0 or seen.max() <= 0:
        values = np.abs(values) * np.sign(seen.max() + seen.min())
    return Given(np.clip(values, -most, most), False, is_bounded, is_raw)


def altered(given: Sequence[Given]) -> Iterator[tuple[str, list[np.ndarray]]]:
    """The numbers as they are, and as they may be later, with a name for each."""
    yield AS_SEEN, [one.values for one in given]
    for factor in _FACTORS:
        stays = [one.is_fixed or one.is_bounded for one in given]
        if not all(stays):
            yield (
                f"numbers x {factor}",
                [
                    one.values * (1 if stay else factor)
                    for one, stay in zip(given, stays, strict=True)
                ],
            )
    if any(one.is_raw and not one.is_fixed for one in given):
        yield RAW, [_raw(one) for one in given]
    if all(one.is_fixed for one in given):
        return
    for name, change in (
        (SMALL, lambda values: values / _SHRINKING),
        (ZEROS, np.zeros_like),
        (CONSTANT_ROWS, _constant_rows),
    ):
        yield name, [one.values if one.is_fixed else change(one.values) for one in given]


def _raw(one: Given) -> np.ndarray:
    if not one.is_raw or one.is_fixed:
        return one.values
    return one.values * (_RAW_SIZE / max(float(np.abs(one.values).max(initial=0)), 1e-30))


def _constant_rows(values: np.ndarray) -> np.ndarray:
    return values * 0 + values.mean(-1, keepdims=True) if values.ndim else values

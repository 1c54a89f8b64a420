"""Numbers that a piece of code may get: seeded draws of the sizes that were seen, and altered ones.

Epsilons, masks and growing squares are harmless in many a first batch, and show only elsewhere.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

AS_SEEN, LARGEST = "numbers as seen", "numbers x 128"
ZEROS, CONSTANT_ROWS = "rows of zeros", "constant rows"
FLAT = (ZEROS, CONSTANT_ROWS)


@dataclass(frozen=True)
class Given:
    """Numbers for one input of a piece.

    Attributes:
        values: the draws.
        is_fixed: they are flags: zeros and ones, such as masks.
        is_bounded: they never grow: shares, or results of a tanh.
        is_raw: they are an input of the model, which has no gradient.
        dtype: the one that they have under the plan.
        is_lookup: they come from a lookup that is float32 and may be in 16 bits, too.
    """

    values: np.ndarray
    is_fixed: bool
    is_bounded: bool
    is_raw: bool
    dtype: str
    is_lookup: bool


def drawn(seen: np.ndarray | None, shape: tuple[int, ...], seed: int) -> tuple[np.ndarray, bool]:
    """Normal numbers at the next power of two to what was seen, with its sign and in its range.

    Whole numbers, such as flags and positions, are taken as they are. Nothing was seen in a loop
    that is being traced.

    Returns:
        The numbers, and whether they are flags.
    """
    values = np.random.default_rng(seed).standard_normal(shape, "float32")
    if seen is None or not seen.size or not np.isfinite(seen).all() or not seen.any():
        return values, False
    if (seen == np.rint(seen)).all():
        return seen, bool((np.abs(seen) <= 1).all())
    values = values * np.float32(2.0 ** np.ceil(np.log2(np.sqrt(np.mean(np.square(seen))))))
    most = np.float32(2.0 ** np.ceil(np.log2(np.abs(seen).max())))
    if seen.min() >= 0 or seen.max() <= 0:
        values = np.abs(values) * np.sign(seen.max() + seen.min())
    return np.clip(values, -most, most), False


def altered(given: Sequence[Given]) -> Iterator[tuple[str, list[np.ndarray]]]:
    """The numbers as they are, and as they may be later, with a name for each."""

    def grown(factor: int) -> Callable[[Given], np.ndarray]:
        return lambda one: one.values if one.is_bounded else one.values * factor

    yield AS_SEEN, [one.values for one in given]
    for name, change in (
        ("numbers x 2", grown(2)),
        ("numbers x 16", grown(16)),
        (LARGEST, grown(128)),
        (ZEROS, lambda one: np.zeros_like(one.values)),
        (CONSTANT_ROWS, lambda one: _constant_rows(one.values)),
    ):
        values = [one.values if one.is_fixed else change(one) for one in given]
        if any(new is not one.values for new, one in zip(values, given, strict=True)):
            yield name, values


def _constant_rows(values: np.ndarray) -> np.ndarray:
    return values * 0 + values.mean(-1, keepdims=True) if values.ndim else values

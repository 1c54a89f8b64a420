"""Differences between outputs of one size, such as two quantiles, which neither shows by itself."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np

from tfmp.converters.drift import OFF, Slices
from tfmp.converters.drift.columns.measuring import FEW_VALUES, contrast_pairs

Pair = tuple[np.ndarray, np.ndarray]


def size_beside(dtype: str, values: int, samples: int) -> int:
    """The number of values of a sample; 0 for an output that is compared with no other one."""
    floating = dtype.startswith(("float", "bfloat"))
    return values // samples if floating and samples and values % samples == 0 else 0


def pairs_beside(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """The pairs of outputs whose differences are compared, by their place.

    Args:
        sizes: of each output, as `size_beside` gives it.
    """
    found = []
    for size in sorted(set(sizes) - {0}):
        alike = [at for at, other in enumerate(sizes) if other == size]
        if size * len(alike) <= FEW_VALUES:
            first, second = contrast_pairs(len(alike))
            found += [(alike[i], alike[j]) for i, j in zip(first, second, strict=True)]
    return sorted(found)


def differences(outputs: Sequence[Pair]) -> list[Slices]:
    """For each output the distances of its differences to later ones, as `pairs_beside` lists them.

    Args:
        outputs: the values of both models for each output, batch first.
    """
    sizes = [
        size_beside(str(one.dtype), one.size, len(one))
        if one.ndim and one.shape == other.shape
        else 0
        for one, other in outputs
    ]
    pairs = pairs_beside(sizes)
    values = {at: _comparable(*outputs[at]) for at in set().union(*pairs)}
    found = [Slices() for _ in outputs]
    for at, group in groupby(pairs, itemgetter(0)):
        partners = [other for _, other in group]
        one, other = (
            np.stack([values[each][side] - values[at][side] for each in partners], axis=-1)
            for side in (0, 1)
        )
        found[at] = Slices.of(one, other, -1)
    return found


def _comparable(reference: np.ndarray, candidate: np.ndarray) -> Pair:
    """All values in a row; samples that are off by themselves are as the reference has them."""
    rows = len(reference)
    one, other = (
        np.asarray(values.reshape(rows, -1), np.float64) for values in (reference, candidate)
    )
    with np.errstate(invalid="ignore", over="ignore"):
        error_sq = ((other - one) ** 2).sum(axis=1)
        right = error_sq <= OFF**2 * (one**2).sum(axis=1)  # NaN is not
    return one.ravel(), np.where(right[:, None], other, one).ravel()

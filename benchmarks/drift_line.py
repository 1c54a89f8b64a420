"""The line through the logarithms of predicted and of measured drifts."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Fit:
    """How predicted drifts follow measured ones.

    Attributes:
        count: number of models.
        slope: 1 where a drift ten times as large is predicted ten times as large.
        ratio: median of predicted over measured.
        spread: factor within which two of three models lie about the line.
    """

    count: int
    slope: float
    ratio: float
    spread: float


def fit(pairs: Iterable[tuple[float, float]]) -> Fit | None:
    """Least squares on a log scale.

    Args:
        pairs: predicted and measured drift of each model; those that are 0 or infinite on either
            side are left out.

    Returns:
        None for fewer than three models, or if all of them measured alike.
    """
    found = np.array(list(pairs), np.float64).reshape(-1, 2)
    y, x = np.log10(found[((found > 0) & np.isfinite(found)).all(axis=1)]).T
    if len(x) < 3 or np.ptp(x) == 0:
        return None
    slope, start = np.polyfit(x, y, 1)
    rest = y - (slope * x + start)
    ratio = float(10 ** np.median(y - x))
    return Fit(len(x), float(slope), ratio, float(10 ** rest.std(ddof=2)))

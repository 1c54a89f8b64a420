"""Rankings: names of the best items beside their scores, of which those with equal scores may swap.

Two items of one score change places in such a list, with their scores. Neither of them is wrong.
"""

from collections.abc import Mapping

import numpy as np

from tfmp.converters.drift.detection.boxes import MOST_PAIRS
from tfmp.converters.drift.detection.together import Pair, assigned, is_sorted

# Scores of a list are equal if they differ by less than this share of the better one.
_TIE = 0.02


def find_ranking(outputs: Mapping[str, Pair]) -> tuple[str, tuple[str, ...]] | None:
    """The scores of a ranking and the integers beside them in one batch; None if there is none."""
    lists = {
        name: one
        for name, (one, other) in outputs.items()
        if one.shape == other.shape and one.ndim == 2 and 2 <= one.shape[1] <= MOST_PAIRS
    }
    scores = [name for name, values in lists.items() if is_sorted(values)]
    if len(scores) != 1:
        return None
    shape = lists[scores[0]].shape
    names = tuple(
        name for name, each in lists.items() if each.dtype.kind in "iu" and each.shape == shape
    )
    return (scores[0], names) if names else None


def by_rank(ranking: tuple[str, tuple[str, ...]], outputs: Mapping[str, Pair]) -> dict[str, Pair]:
    """The outputs with the candidate's items where the reference has them, among equal scores.

    Args:
        ranking: the scores, and the names beside them.
        outputs: values of both sides by output; others than the ranking's stay as they are.
    """
    score, names = ranking
    expected, received = (values.astype(np.float64) for values in outputs[score])
    changed = np.any([outputs[name][0] != outputs[name][1] for name in names], axis=0).any(axis=1)
    places = np.broadcast_to(np.arange(expected.shape[1]), expected.shape).copy()
    for sample in np.flatnonzero(changed).tolist():
        one, other = expected[sample], received[sample]
        near = _TIE * np.abs(one[:, None])
        same = (np.abs(one[:, None] - one) <= near) & (np.abs(one[:, None] - other) <= near)
        for name in names:
            pair = outputs[name]
            same &= pair[0][sample][:, None] == pair[1][sample]
        places[sample] = assigned(same)
    rows = np.arange(len(places))[:, None]
    moved = {name: (outputs[name][0], outputs[name][1][rows, places]) for name in (score, *names)}
    return {**outputs, **moved}

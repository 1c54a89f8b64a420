"""Items of equal scores may swap in a ranking."""

import numpy as np

from tfmp.converters.drift.detection.ranking import by_rank, find_ranking

SCORES = np.array([[0.9, 0.899, 0.5], [0.8, 0.7, 0.6]], np.float32)
ITEMS = np.array([[4, 7, 1], [3, 5, 2]])
NAMES = ("scores", ("items",))


def ranked(items, scores=SCORES):
    outputs = {"scores": (SCORES, scores), "items": (ITEMS, items), "other": (SCORES, SCORES)}
    assert find_ranking({name: outputs[name] for name in ("scores", "items")}) == NAMES
    return by_rank(NAMES, outputs)


def test_equal_scores_swap_and_others_do_not():
    assert (ranked(ITEMS[:, [1, 0, 2]])["items"][1] == [[4, 7, 1], [5, 3, 2]]).all()
    assert (ranked(ITEMS[:, [2, 1, 0]])["items"][1] == ITEMS[:, [2, 1, 0]]).all()
    assert (ranked(ITEMS + 1)["items"][1] == ITEMS + 1).all()


def test_items_take_their_scores_along():
    scores = SCORES[:, [1, 0, 2]]
    found = ranked(ITEMS[:, [1, 0, 2]], scores)
    assert (found["scores"][1][0] == SCORES[0]).all()
    assert (found["scores"][1][1] == scores[1]).all()


def test_lists_that_are_no_ranking():
    pair = (SCORES, SCORES)
    assert find_ranking({"scores": pair, "more": pair}) is None  # no names of items
    assert find_ranking({"scores": (SCORES[:, ::-1],) * 2, "items": (ITEMS, ITEMS)}) is None

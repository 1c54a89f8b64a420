"""Counts by class and group of samples."""

import json
import pickle

import numpy as np
import pytest

from tfmp.converters.drift import MOST_CLASSES
from tfmp.converters.drift.labels.counts import Counts
from tfmp.converters.shared.errors import InputError


def some(seed: int, classes: int = 9) -> Counts:
    rng = np.random.default_rng(seed)
    return Counts.of(*((rng.integers(0, classes, 200), rng.integers(0, 64, 200)),) * 5)


def test_counts_by_hand() -> None:
    here = np.array([3, 3, 70]), np.array([1, 1, 63])
    table = Counts.of(here, *(((np.array([3]), np.array([1])),) * 4)).table
    assert table.shape == (71, 64, 5)
    assert (table[3, 1, 0], table[3, 1, 4], table[70, 63, 0], table.sum()) == (2, 1, 1, 7)


def test_merging_is_adding_in_any_order() -> None:
    parts = [some(seed, 5 + seed) for seed in range(20)]
    forward, backward = Counts(), Counts()
    for part in parts:
        forward, backward = forward.merged(part), part.merged(backward)
    assert forward == backward
    assert forward.table.sum() == 20 * 5 * 200


def test_json_and_pickle_keep_everything() -> None:
    for found in (Counts(), some(1).merged(some(2)), some(1, 2 * MOST_CLASSES)):
        assert Counts.from_json(json.loads(json.dumps(found.to_json()))) == found
        assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize("beyond", [MOST_CLASSES, -1])
def test_a_class_that_is_beyond_all_leaves_no_counts(beyond) -> None:
    full = Counts.of(*((np.array([beyond]), np.array([0])),) * 5)
    assert (
        len(full.table) == len(some(1).merged(full).table) == len(full.merged(some(1)).table) == 0
    )


def test_a_document_that_was_cut_is_refused() -> None:
    document = some(1).to_json()
    for change in ({"entries": 7}, {"places": "AA"}, {"counts": None}):
        with pytest.raises(InputError, match="a table of classes in the report cannot be read"):
            Counts.from_json(document | change)

"""Counts by class and group of samples."""

import json
import pickle

import numpy as np
import pytest

from tfmp.converters.drift.labels import counts as module
from tfmp.converters.drift.labels.counts import Counts
from tfmp.converters.shared.errors import InputError


def some(seed: int, classes: int = 9) -> Counts:
    rng = np.random.default_rng(seed)
    return Counts.of(*((rng.integers(0, classes, 200), rng.integers(0, 64, 200)),) * 5)


def test_counts_by_hand() -> None:
    here = np.array([3, 3, 70_000]), np.array([1, 1, 63])
    found = Counts.of(here, *(((np.array([3]), np.array([1])),) * 4))
    classes, table = found.by_class()
    np.testing.assert_array_equal(classes, [3, 70_000])
    assert table.shape == (2, 64, 5)
    assert (table[0, 1, 0], table[0, 1, 4], table[1, 63, 0], table.sum()) == (2, 1, 1, 7)


def test_merging_is_adding_in_any_order() -> None:
    parts = [some(seed) for seed in range(200)]  # more than are held unmerged
    forward, backward = Counts(), Counts()
    for part in parts:
        forward = forward.merged(part)
    for part in parts[::-1]:
        backward = part.merged(backward)
    assert forward == backward
    total = sum(part.by_class()[1].sum() for part in parts)
    assert forward.by_class()[1].sum() == total == 200 * 5 * 200


def test_json_and_pickle_keep_everything() -> None:
    for found in (Counts(), some(1).merged(some(2))):
        assert Counts.from_json(json.loads(json.dumps(found.to_json()))) == found
        assert pickle.loads(pickle.dumps(found)) == found


def test_too_many_entries_are_none_in_any_order(monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_ENTRIES", 3000)
    parts = [some(seed, classes=500) for seed in range(100)]
    found = Counts()
    for part in parts:
        found = found.merged(part)
    assert len(found) == 0
    assert found.by_class()[0].size == 0
    joined = Counts()
    for start in (50, 0):
        half = Counts()
        for part in parts[start : start + 50]:
            half = half.merged(part)
        joined = joined.merged(Counts.from_json(half.to_json()))
    assert joined == found


def test_a_document_that_was_cut_is_refused() -> None:
    document = some(1).to_json()
    for change in ({"entries": 7}, {"places": "AA"}, {"counts": None}):
        with pytest.raises(InputError, match="a table of classes in the report cannot be read"):
            Counts.from_json(document | change)

"""Predictions that are kept: their order, their size, their form in a report."""

import json

import numpy as np
import pytest
from label_runs import keys_of

from tfmp.converters.drift import CustomMetric
from tfmp.converters.drift.labels import kept as module
from tfmp.converters.drift.labels.kept import Kept, keep
from tfmp.converters.shared.errors import InputError


def score(predictions, labels):
    return float(np.mean(predictions))


METRIC = CustomMetric.of(score)
KEYS = keys_of(6)


def batch(rows, width=3):
    values = np.arange(6.0)[rows, None] * np.ones(width)
    names = np.array(["a", "bc", "", "d", "é", "f"], object)[rows]
    return keep(METRIC, KEYS[rows], {"text": names}, {"y": values}, {"y": values + 1})


def test_samples_of_different_shapes_are_given_one_by_one() -> None:
    table = batch([0, 1]).merged(batch([2, 3], width=2)).table
    assert table.reference["y"].dtype == object
    assert sorted(len(row) for row in table.reference["y"]) == [2, 2, 3, 3]


@pytest.mark.parametrize("widths", [(3, 3), (3, 2)])
def test_json_keeps_everything(widths) -> None:
    found = batch([5, 0, 2], widths[0]).merged(batch([4, 1], widths[1]))
    again = Kept.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False)))
    assert again == found
    table, other = again.table, found.table
    np.testing.assert_array_equal(table.labels["text"], other.labels["text"])
    for row, expected in zip(table.candidate["y"], other.candidate["y"], strict=True):
        np.testing.assert_array_equal(row, expected)
    assert again.metric is not None
    assert again.metric.name == METRIC.name
    assert Kept.from_json(Kept().to_json()) == Kept()


def test_the_order_is_of_the_keys() -> None:
    table = batch([3, 1]).merged(batch([0, 2, 4, 5])).table
    np.testing.assert_array_equal(table.keys, np.sort(KEYS))


def test_predictions_that_are_too_many_for_a_report_cannot_be_merged(monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES_IN_REPORT", 100)
    found = batch([0, 1, 2, 3])
    document = found.to_json()
    assert "keys" not in document
    again = Kept.from_json(document)
    with pytest.raises(InputError) as caught:
        _ = again.merged(batch([4, 5])).table
    assert "score' cannot be merged: the predictions that it needs take" in str(caught.value)
    assert "let the function return an array with a number for each sample" in str(caught.value)


def test_predictions_that_are_too_many_for_memory_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES_IN_MEMORY", 100)
    with pytest.raises(InputError, match=r"those of 4 samples take .* Pass fewer samples, or let"):
        batch([0, 1, 2, 3]).check_size(4)
    batch([0]).check_size(1)


@pytest.mark.parametrize(
    "change", [{"samples": 3}, {"keys": "AA"}, {"labels": {"dtype": "<f8", "shape": [3]}}]
)
def test_a_document_that_was_changed_is_refused(change) -> None:
    document = batch([0, 1]).to_json() | change
    with pytest.raises(InputError, match="a table of predictions in the report cannot be read"):
        Kept.from_json(document)


def test_objects_are_not_read_from_a_document() -> None:
    document = batch([0, 1]).to_json()
    document["reference"] = {"dtype": "O", "shape": [2], "data": document["keys"]}
    with pytest.raises(InputError, match="cannot be read"):
        Kept.from_json(document)

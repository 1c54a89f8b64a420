"""Predictions that are kept: their order, their size, and what a report says of them."""

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
    assert table.of("reference")["y"].dtype == object
    assert sorted(len(row) for row in table.of("reference")["y"]) == [2, 2, 3, 3]


def test_predictions_that_a_report_leaves_out_cannot_be_merged() -> None:
    document = json.loads(json.dumps(batch([0, 1]).to_json()))
    again = Kept.from_json(document)
    assert again.metric is not None
    assert again.metric.name == METRIC.name
    with pytest.raises(InputError) as caught:
        _ = again.merged(batch([4, 5])).table
    assert "score' cannot be merged: it needs all predictions at a time" in str(caught.value)
    assert "let the function return an array with a number for each sample" in str(caught.value)


def test_predictions_that_are_too_many_for_memory_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES_IN_MEMORY", 100)
    with pytest.raises(InputError, match=r"those of 4 samples take .* Pass fewer samples, or let"):
        batch([0, 1, 2, 3]).check_size(4)
    batch([0]).check_size(1)


def test_a_document_that_was_changed_is_refused() -> None:
    with pytest.raises(InputError, match="a table of predictions in the report cannot be read"):
        Kept.from_json({"metric": "score"})

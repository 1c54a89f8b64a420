"""Training batches from arrays and from iterables, and on the device."""

import keras
import numpy as np
import pytest

from tfmp.shared.batches import TrainingBatch, labelled_batches

X = np.arange(10.0).reshape(5, 2)
Y = np.arange(5)


def test_batches_of_arrays_iterables_and_datasets():
    found = list(labelled_batches(({"a": X, "b": X + 1}, Y, np.ones(5)), 2))
    assert [batch.samples for batch in found] == [2, 2, 1]
    assert found[1].x["b"].tolist() == [[5, 6], [7, 8]]
    assert found[2].sample_weight.tolist() == [1]
    found = list(labelled_batches([(X, Y), [X, Y, Y]], 2))
    assert [batch.samples for batch in found] == [5, 5]
    assert found[0].sample_weight is None
    assert found[1].sample_weight is Y
    words = np.array(["a", "b"], object)
    assert next(labelled_batches((words, Y[:2]), 2)).samples == 2
    edges = {"nodes": X, "edges": X[:3]}
    assert len(list(labelled_batches([(edges, Y)], 2))) == 1


class Pairs(keras.utils.PyDataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return X[index : index + 1], Y[index : index + 1]


def test_batches_of_a_keras_dataset_come_in_order():
    assert [batch.y.tolist() for batch in labelled_batches(Pairs(), 9)] == [[0], [1]]


@pytest.mark.parametrize("data", [X, (X,), {"a": X}, [X, X], [(X,)]])
def test_x_alone_has_no_targets(data):
    batches = list(labelled_batches(data, len(X)))
    assert [(batch.samples, batch.y) for batch in batches] == [(len(X), None)]


RAGGED = [[1.0, 2.0], [3.0]]
ROWS = np.empty(2, object)
ROWS[:] = RAGGED


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((X.tolist(), Y), "arrays in x; received single values of type float. Pass a numpy.array"),
        ((RAGGED, Y), "all rows have the same length: pad shorter ones"),
        ((X[:2], RAGGED), "arrays in y; received single values of type float"),
        ((ROWS, Y[:2]), "arrays in x; received an array of lists"),
    ],
)
def test_nested_lists_are_refused_with_the_next_step(data, message):
    with pytest.raises(TypeError, match=message):
        list(labelled_batches(data, 2))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((X, Y[:3]), "received 5 in x and 3 in y"),
        (({"a": X, "b": X[:4]}, Y), "received 5 in x and 4 in x and 5 in y"),
    ],
)
def test_arrays_of_different_lengths_are_refused(data, message):
    with pytest.raises(ValueError, match=message):
        list(labelled_batches(data, 2))


def test_a_batch_on_the_device_is_as_fit_hands_it_to_a_step():
    batch = TrainingBatch({"a": X}, Y)
    x, y = batch.placed()
    assert keras.ops.is_tensor(x["a"])
    assert keras.backend.standardize_dtype(x["a"].dtype) == "float32"
    assert "int" in keras.backend.standardize_dtype(y.dtype)
    assert len(TrainingBatch(X, Y, np.ones(5)).placed()) == 3
    assert len(TrainingBatch(X).placed()) == 1


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="JAX needs JAX_ENABLE_X64")
def test_float64_stays_float64_where_a_job_computes_in_it():
    x, y = TrainingBatch(X, X.astype("float32")).placed("float64")
    assert (x.dtype.name, y.dtype.name) == ("float64", "float32")

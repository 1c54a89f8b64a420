"""Input pipelines that sleep, and pipelines that do not."""

import time

import keras
import numpy as np
import pytest
from keras import layers

from tfmp.roofline.pipeline import (
    InputPipeline,
    _arguments,
    _batches_of_arrays,
    measure_pipeline,
)
from tfmp.shared.batches import TrainingBatch

X = np.ones((64, 8), np.float32)
Y = np.ones((64, 1), np.float32)
BATCH = TrainingBatch(X[:16], Y[:16])
SLEEP_S = 0.02


@pytest.fixture(scope="module")
def model():
    model = keras.Sequential([layers.Input((8,)), layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(X[:16], Y[:16], batch_size=16, verbose=0)
    return model


class Sleeps(keras.utils.PyDataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        time.sleep(SLEEP_S)
        return X[:16].astype("float64"), Y[:16]


def sleeping_batches():
    while True:
        yield Sleeps()[0]


@pytest.mark.parametrize(
    ("data", "kind", "advice"),
    [
        pytest.param(Sleeps(), "PyDataset", "more workers", marks=pytest.mark.slow),
        (sleeping_batches(), "Python iterable", "keras.utils.PyDataset with workers="),
    ],
)
def test_a_slow_pipeline_is_input_bound(model, data, kind, advice):
    found = measure_pipeline(model, data, TrainingBatch(*Sleeps()[0]), 16, "float32")
    assert found.kind == kind
    assert found.data_s >= SLEEP_S / 2  # a batch may have been ready
    assert found.together_s >= SLEEP_S / 2
    assert found.input_bound
    assert found.text.startswith("input-bound: ")
    assert any(advice in text for text in found.advice)
    assert any("float64" in text for text in found.advice)


def test_a_pipeline_that_keeps_up(model):
    batches = [(X[:16], Y[:16])] * 3
    step = model.train_function

    def slow(*arguments):
        time.sleep(SLEEP_S)
        return step(*arguments)

    model.train_function = slow
    try:
        found = measure_pipeline(model, batches, BATCH, 16, "float32")
        assert model.train_function is slow
    finally:
        model.train_function = step
    assert found.step_s >= SLEEP_S
    assert found.data_s < found.step_s
    assert not found.input_bound
    assert found.text.startswith("not input-bound: ")


def test_data_that_can_be_read_once_and_has_ended(model):
    with pytest.raises(ValueError, match="read once and has ended"):
        measure_pipeline(model, iter([(X[:16], Y[:16])] * 4), BATCH, 16, "float32")


def test_the_share_of_waiting():
    found = InputPipeline("float32", "arrays", data_s=3.0, step_s=1.0, together_s=4.0, batches=5)
    assert (found.waiting_share, found.at_most) == (0.75, 4.0)
    faster = InputPipeline("float32", "arrays", data_s=0.1, step_s=1.0, together_s=0.9, batches=5)
    assert (faster.waiting_share, faster.at_most) == (0.0, 1.0)
    busy = InputPipeline("float32", "arrays", data_s=0.01, step_s=1.0, together_s=2.0, batches=5)
    assert not busy.input_bound
    assert (busy.waiting_share, busy.at_most) == (0.005, pytest.approx(1.005, abs=1e-4))


@pytest.mark.parametrize(("width", "batches"), [(1, 400), (2**18, 32), (2**24, 8)])
def test_short_arrays_are_not_made_longer_than_memory_bears(width, batches):
    x = np.broadcast_to(np.float32(1), (3, width))
    assert _batches_of_arrays(({"x": x}, None), 8) == batches


def test_arrays_keep_their_form_and_need_no_weights():
    arguments = _arguments(({"a": X}, Y, None), 2)
    assert arguments["x"]["a"].shape == (800, 8)
    assert arguments["y"].shape == (800, 1)
    assert arguments["sample_weight"] is None

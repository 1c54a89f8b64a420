"""Which samples are kept, and in what batches they come back."""

import numpy as np
import pytest

from tfmp.converters.explain.samples import (
    WORST,
    Sample,
    SampleKeeper,
    batched,
    sample_errors,
)


def batch(rows: np.ndarray) -> dict[str, np.ndarray]:
    return {"y": rows}


def keep(errors: list[float], size: int = 7) -> SampleKeeper:
    """A keeper that saw samples with these errors: ones, off by that much."""
    keeper = SampleKeeper()
    for start in range(0, len(errors), size):
        part = np.array(errors[start : start + size], np.float32)[:, None]
        ones = np.ones_like(part)
        index = np.arange(start, start + len(part), dtype=np.float32)[:, None]
        keeper.update({"x": index}, batch(ones), batch(ones + part))
    return keeper


@pytest.mark.parametrize("size", [1, 7, 64])
def test_the_worst_are_found_wherever_they_are_whatever_the_batches(size: int) -> None:
    errors = [0.001] * 60
    errors[41], errors[3], errors[59] = 0.5, 0.25, np.nan
    worst = keep(errors, size).worst()
    assert len(worst) == WORST
    assert [sample.index for sample in worst[:4]] == [59, 41, 3, 0]
    assert [round(sample.error, 6) for sample in worst[:3]] == [np.inf, 0.5, 0.25]
    assert [sample.inputs["x"].item() for sample in worst[:3]] == [59, 41, 3]


def test_no_more_samples_are_held_than_are_needed() -> None:
    keeper = keep([i / 1000 for i in range(200)])
    assert len(keeper.worst()) == WORST


def test_errors_are_of_the_worst_output_and_infinite_where_a_value_is_lost() -> None:
    expected = {"a": np.ones((4, 2)), "b": np.full((4, 1), 2.0)}
    received = {"a": np.ones((4, 2)), "b": np.full((4, 1), 2.0)}
    received["b"][1] = 3.0
    received["a"][2, 0] = np.inf
    expected["a"][3, 0] = received["a"][3, 0] = np.inf
    assert sample_errors(expected, received).tolist() == [0.0, 0.5, np.inf, 0.0]


def test_classes_and_texts_are_compared_by_equality() -> None:
    ids = {"ids": np.array([[1, 2], [3, 4]])}, {"ids": np.array([[1, 2], [3, 5]])}
    words = {"w": np.array([["a"], ["b"]], object)}, {"w": np.array([["a"], ["c"]], object)}
    assert sample_errors(*ids).tolist() == [0.0, 0.5]
    assert sample_errors(*words).tolist() == [0.0, 1.0]


def sample(index: int, length: int = 3) -> Sample:
    return Sample(index, 0.1, {"x": np.full(length, index)}, {"y": np.full(2, index)}, {})


def test_samples_of_one_shape_run_together_and_fill_a_fixed_batch() -> None:
    samples = [sample(0), sample(1, 5), sample(2), sample(3)]
    found = list(batched(samples, 2))
    assert [(b["x"][:, 0].tolist(), rows) for b, _, rows in found] == [
        ([0, 2], 2),
        ([3, 3], 1),
        ([1, 1], 1),
    ]
    assert [len(expected["y"]) for _, expected, _ in found] == [2, 1, 1]


def test_an_input_without_a_batch_axis_is_shared_only_where_it_is_the_same() -> None:
    keeper = SampleKeeper()
    for steps in (3, 4):
        x = np.ones((2, 2), np.float32)
        keeper.update({"x": x, "steps": np.array(steps)}, batch(x), batch(x + 1))
    found = [(b["steps"].item(), len(b["x"])) for b, _, _ in batched(keeper.worst(), None)]
    assert sorted(found) == [(3, 2), (4, 2)]

"""Metrics against hand-computed values, and the same for every split and order of the data."""

import math
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from judged_distances import OutputAccumulator

from tfmp.converters.drift.exact import merge
from tfmp.converters.drift.metrics import OutputDrift, drift_of
from tfmp.converters.drift.tasks import Kind, Task
from tfmp.converters.drift.totals import measure

CLASSES = Task(Kind.CLASSIFICATION)


def drift(reference, candidate, dtype="float32", task=None) -> OutputDrift:
    accumulator = OutputAccumulator("y", task=task)
    accumulator.update(np.asarray(reference, dtype), np.asarray(candidate, dtype))
    return accumulator.result()


def softmax(logits: np.ndarray) -> np.ndarray:
    shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return (shares / shares.sum(axis=-1, keepdims=True)).astype(np.float32)


class TestDistances:
    def test_by_hand(self) -> None:
        # r = (3, 4), c = (3, 5): error 1, |r| = 5.
        found = drift([[3, 4]], [[3, 5]])
        assert found.rel_l2 == pytest.approx(1 / 5, rel=1e-15)
        assert found.max_abs == 1.0
        assert found.sqnr_db == pytest.approx(10 * math.log10(25), rel=1e-15)
        assert found.samples == 1

    def test_complex_outputs_count_both_parts(self) -> None:
        found = drift([[3 + 4j]], [[3 + 5j]], "complex64")
        assert found.rel_l2 == pytest.approx(0.2)

    def test_probabilities_that_are_nearly_alike_keep_their_size(self) -> None:
        chances = 0.001 + 1e-7 * np.random.default_rng(0).standard_normal((50, 1000))
        chances /= chances.sum(axis=1, keepdims=True)
        accumulator = OutputAccumulator("y", task=CLASSES)
        accumulator.update(chances, chances.astype("f2"), np.arange(50, dtype=np.uint64))
        assert accumulator.result().sample_rel_l2 < 1e-3


class TestNonfinite:
    def test_equal_infinities_are_no_difference(self) -> None:
        found = drift([[-math.inf, 1.0]], [[-math.inf, 1.0]])
        assert (found.nonfinite, found.infinite_lost, found.rel_l2) == (0, 0, 0.0)

    def test_saturated_values_are_counted(self) -> None:
        # 65519 rounds to 65504, and from 65520 on nothing does.
        found = drift([[65520.0, 65519.0, 65504.0]], [[65504.0, 65504.0, 65504.0]])
        assert found.saturated == 1


def outputs(rows: int, columns: int, seed: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    reference = generator.standard_normal((rows, columns)).astype(np.float32)
    reference *= np.exp2(generator.integers(-20, 10, (rows, 1))).astype(np.float32)
    if kind == "probabilities":
        reference = softmax(reference)
    candidate = reference.astype(np.float16).astype(np.float32)
    if kind == "broken":
        candidate[generator.random(candidate.shape) < 0.05] = np.nan
    if kind == "integers":
        reference = generator.integers(0, 3, (rows, columns))
        candidate = generator.integers(0, 3, (rows, columns))
    return reference, candidate


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 30),
    st.integers(0, 2**16),
    st.sampled_from(["logits", "probabilities", "broken", "integers"]),
    st.data(),
)
def test_any_split_and_order_gives_the_same_report(rows, columns, seed, kind, data) -> None:
    reference, candidate = outputs(rows, columns, seed, kind)
    keys = np.random.default_rng(seed).integers(0, max(2, rows - 3), rows).astype(np.uint64)
    reference, candidate = reference[keys % rows], candidate[keys % rows]
    whole = OutputAccumulator("y")
    whole.update(reference, candidate, keys)

    order = data.draw(st.permutations(range(rows)))
    shards = [OutputAccumulator("y") for _ in range(3)]
    start = 0
    while start < rows:
        stop = start + data.draw(st.integers(1, rows))
        batch = order[start:stop]
        data.draw(st.sampled_from(shards)).update(reference[batch], candidate[batch], keys[batch])
        start = stop
    parts = [shard.result().totals for shard in data.draw(st.permutations(shards))]
    # repr: NaN is not equal to itself, and every bit of a float shows.
    assert repr(drift_of("y", merge(*parts))) == repr(whole.result())


def test_a_mask_in_one_sample_leaves_the_others_alone() -> None:
    reference = np.array([[300, 50, 10, 0], [5, -1e9, 3, 1], [1, 2, np.nan, 0]], np.float32)
    candidate = np.array([[300, 40, 10, 0], [5, -65504, 3, 1], [1, 2, np.nan, 0]], np.float32)
    whole = measure(reference, candidate, CLASSES)
    first, *rest = (measure(reference[i : i + 1], candidate[i : i + 1], CLASSES) for i in range(3))
    parts = merge(merge(first, rest[0]), rest[1])
    assert (parts.error_sq, parts.reference_sq) == (whole.error_sq, whole.reference_sq)
    assert whole.error_sq == (100.0,)


def test_outputs_too_large_to_be_measured_at_once_give_the_same() -> None:
    generator = np.random.default_rng(5)
    reference = generator.standard_normal((7, 3, 70_000)).astype(np.float32)
    candidate = reference.astype(np.float16).astype(np.float32)
    keys = np.arange(7, dtype=np.uint64)
    whole = measure(reference, candidate, None, keys)
    assert whole.samples == len(whole.rows) == 7
    single = (
        measure(reference[i : i + 1], candidate[i : i + 1], None, keys[i : i + 1]) for i in range(7)
    )
    assert reduce(merge, single) == whole


def test_rows_are_detections_as_long_as_all_of_them_are() -> None:
    accumulator = OutputAccumulator("y")
    accumulator.update(np.zeros((4, 2, 6), np.float32), np.zeros((4, 2, 6), np.float32))
    assert accumulator.result().task.kind is Kind.IDS  # padding, as far as anybody knows
    rows = np.float32([[[10, 10, 50, 60, 0.9, 7], [100, 90, 130, 140, 0.8, 3]]])
    accumulator.update(rows, rows[:, ::-1])
    found = accumulator.result()
    assert (found.task.kind, found.decided, found.changed) == (Kind.DETECTION, 6, 0)
    accumulator.update(-rows, -rows)
    found = accumulator.result()
    assert (found.task.kind, found.decisions) == (Kind.OTHER, None)


class TestViews:
    """Which views are looked at, of which output."""

    EXACT = (1013 + 0.6 * np.random.default_rng(0).standard_normal((200, 1))).astype(np.float32)

    def views(self, task, reference=EXACT, candidate=None):
        accumulator = OutputAccumulator("y", task=Task.of(task, "y") if task else None)
        candidate = reference.astype(np.float16) if candidate is None else candidate
        accumulator.update(reference, candidate, np.arange(len(reference), dtype=np.uint64))
        return {view.view for view in accumulator.result().views}

    def test_all_where_nothing_tells_what_it_means(self):
        assert self.views(None) == self.views("regression") == {"between_samples"}
        assert self.views("embedding") == {"between_samples"}
        assert self.views("multilabel") == {"between_samples"}
        assert self.views("classification") == set()

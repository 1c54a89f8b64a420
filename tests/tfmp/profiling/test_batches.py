"""The search for the largest batch: never past what fails, never a size twice."""

import numpy as np
import pytest

from tfmp.machine.measuring import DEVICE_MEMORY, Memory
from tfmp.profiling.batches import BatchLimit, of_size, search
from tfmp.shared.batches import TrainingBatch


def limited(limit, tried):
    def attempt(size):
        tried.append(size)
        return Memory(size, DEVICE_MEMORY) if size <= limit else None

    return attempt


@pytest.mark.parametrize("limit", [1, 7, 31, 32, 33, 100, 1000, 12345])
@pytest.mark.parametrize("start", [1, 32])
def test_it_ends_within_a_sixteenth_of_the_limit(limit, start):
    tried = []
    found = search(limited(limit, tried), start, 2**20)
    assert found.memory.bytes == found.fits <= limit < found.fails
    assert found.fails - found.fits <= max(1, found.fits / 16)
    assert len(tried) == len(set(tried))
    assert max(tried) <= 2 * max(limit, start)


def test_it_knows_where_to_end():
    tried = []
    search(limited(1000, tried), 32, 2**20)
    assert all(size % 8 == 0 for size in tried)
    found = search(limited(0, []), 32, 2**20)
    assert (found.fits, found.fails, found.memory) == (0, 1, None)
    assert str(found) == "below 1"
    found = search(limited(10**9, []), 3, 100)
    assert (found.fits, found.fails) == (100, None)
    assert str(found) == "100 and more"
    assert str(BatchLimit(64, 72, None)) == "64 (72 does not fit)"


def test_a_batch_is_made_of_the_samples_there_are():
    x, y, weight = of_size(TrainingBatch({"a": np.arange(3)}, np.arange(3)), 5)
    assert x["a"].tolist() == y.tolist() == [0, 1, 2, 0, 1]
    assert weight is None

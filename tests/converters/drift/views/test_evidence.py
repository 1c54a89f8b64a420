"""Both sides of a choice of samples: the same one for any split and order, and small."""

import pickle
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest

import tfmp.converters.drift.views.evidence as module
from tfmp.converters.drift.views.evidence import Evidence, places_of
from tfmp.converters.shared.errors import InputError

SHAPES = [(), (1,), (5,), (300,), (6, 4), (3, 7, 50), (70, 200)]


def keys_of(samples: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**63, samples).astype(np.uint64)


def values_of(samples: int, shape: tuple[int, ...], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    reference = np.random.default_rng(seed).standard_normal((samples, *shape)).astype(np.float32)
    with np.errstate(over="ignore"):
        return reference, reference.astype(np.float16).astype(np.float32)


def evidence(samples: int, shape: tuple[int, ...], seed: int = 0) -> Evidence:
    return Evidence.of(keys_of(samples, seed), *values_of(samples, shape, seed), -1)


def shuffled_parts(samples: int, shape: tuple[int, ...], seed: int) -> list[Evidence]:
    """The same samples in random order, in batches of random sizes."""
    generator = np.random.default_rng(seed)
    keys, sides = keys_of(samples), values_of(samples, shape)
    order = generator.permutation(samples)
    cuts = np.sort(generator.integers(0, samples, 6))
    return [
        Evidence.of(keys[part], *(side[part] for side in sides), -1)
        for part in np.split(order, cuts)
    ]


@pytest.fixture
def small(monkeypatch):
    """Little room: 2,048 values of each side, so 8 large samples."""
    monkeypatch.setattr(module, "MOST_VALUES", 2**11)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", [0, 1])
def test_any_split_and_order_gives_the_same(shape, seed):
    whole = evidence(40, shape)
    found = reduce(Evidence.merged, shuffled_parts(40, shape, seed))
    assert found == whole
    for one, other in zip(found.parts, whole.parts, strict=True):
        assert one.values.tobytes() == other.values.tobytes()
        assert one.keys.tobytes() == other.keys.tobytes()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("sent", [False, True])
def test_what_is_dropped_on_the_way_is_what_one_run_drops(shape, sent):
    whole = evidence(400, shape)
    found = Evidence()
    for part in shuffled_parts(400, shape, 2):
        found = found.merged(part)
        found = pickle.loads(pickle.dumps(found)) if sent else found
    assert found == whole
    kept = whole.parts[0]
    assert kept.values.size <= 2 * 2**11
    assert kept.keys.tolist() == sorted(keys_of(400).tolist())[: len(kept.keys)]


@pytest.mark.usefixtures("small")
def test_a_shape_of_which_nothing_is_kept_still_counts():
    large = Evidence.of(np.full(1, 2**64 - 1, np.uint64), *values_of(1, (300,)), -1)
    one, other = evidence(100, (1,)), evidence(100, (1,), 1)
    sent = Evidence.from_json(one.merged(large).to_json())
    assert sent.merged(other) == one.merged(large).merged(other)


def test_the_choice_among_copies_does_not_depend_on_what_else_was_seen(monkeypatch):
    monkeypatch.setattr(module, "MOST_VALUES", 2**12)
    reference = np.ones((2, 2000), np.float32)
    reference[0, places_of((2000,))[-1]] = 2
    candidate = np.ones((2, 2000), np.float32)
    candidate[1, places_of((2000,))[0]] = 2
    twice = [
        Evidence.of(np.zeros(1, np.uint64), r[None], c[None], -1)
        for r, c in zip(reference, candidate, strict=True)
    ]
    others = Evidence.of(1 + np.arange(15, dtype=np.uint64), *values_of(15, (2000,)), -1)
    early = Evidence.from_json(twice[0].merged(twice[1]).to_json()).merged(others)
    late = Evidence.from_json(twice[0].merged(others).to_json()).merged(twice[1])
    assert early == late


def test_no_more_memory_than_is_allowed():
    found = evidence(6000, (300,))
    (part,) = found.parts
    assert part.values.shape == (2**12, 2, 2**8)
    assert part.values.nbytes == 2 * 4 * module.MOST_VALUES
    (part,) = evidence(2, (200, 300)).parts
    assert part.kept == 2**14


@pytest.mark.parametrize(
    "shape", [(1,), (16,), (300,), (129, 2), (33, 100), (9, 1000), (40_001, 3)]
)
def test_places_are_neighbours_in_pairs_and_the_first_ones_suffice(shape):
    places = places_of(shape)
    size = int(np.prod(shape))
    assert len(np.unique(places)) == len(places) == min(size, 2**14)
    assert 0 <= places.min() <= places.max() < size
    columns = shape[-1] if 2 * shape[-1] <= 2**8 else 1
    if size > 2**8:
        rows = places[: len(places) // columns * columns].reshape(-1, columns) // columns
        assert (rows == rows[:, :1]).all()
        first = rows[: len(rows) // 2 * 2, 0].reshape(-1, 2)
        assert (np.diff(first, axis=1) == 1)[:-1].all()
    assert len(places) == size or places[: 2**8].max() > size / 4  # not only the beginning


@pytest.mark.parametrize(
    "change",
    [
        {"rows": 29},
        {"rows": 10**12},
        {"kept": 0},
        {"kept": 99},
        {"shape": [0]},
        {"shape": ["a"]},
        {"keys": "!"},
        {"values": ""},
        {"values": None},
    ],
)
def test_a_document_that_was_changed_is_refused(change):
    document = evidence(30, (5,)).to_json()
    document["parts"][0] |= change
    with pytest.raises(InputError, match="a table of values"):
        Evidence.from_json(document)


def test_keys_that_are_in_no_order_are_refused():
    (part,) = evidence(5, (2,)).parts
    twice = Evidence()
    twice.__dict__["parts"] = (replace(part, keys=part.keys[[0, 0, 1, 2, 3]]),)
    with pytest.raises(InputError):
        Evidence.from_json(twice.to_json())

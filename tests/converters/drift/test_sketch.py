"""The table of distinct samples: exact under any split, bounded, and safe to read back."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tfmp.converters.drift.sketch import MOST_ROWS, Sketch
from tfmp.converters.shared.errors import InputError

KEYS = np.random.default_rng(0).integers(0, 2**64, 300, np.uint64)
KEYS[200:] = KEYS[:100]  # a third of the samples is repeated
ERRORS = (KEYS % np.uint64(97)).astype(np.float64)


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(300)), st.lists(st.integers(1, 299), max_size=90, unique=True))
def test_any_split_and_order_gives_the_same_table(order, cuts):
    whole = Sketch.of(KEYS, [ERRORS])
    merged = Sketch()
    for part in np.split(np.array(order), sorted(cuts)):
        merged = merged.merged(Sketch.of(KEYS[part], [ERRORS[part]]))
    assert merged.to_json() == whole.to_json()
    assert merged == whole


def test_rows_of_one_key_that_differ_are_chosen_alike_in_any_order():
    one, other = (Sketch.of(KEYS[:1], [np.array([value])]) for value in (2.0, 1.0))
    assert one.merged(other) == other.merged(one)
    assert one != other


@pytest.mark.parametrize("table", [Sketch(), Sketch.of(KEYS, [ERRORS, ERRORS])])
def test_json_and_pickle_give_it_back(table):
    document = json.loads(json.dumps(table.to_json()))
    assert Sketch.from_json(document) == table
    assert pickle.loads(pickle.dumps(table)) == table


@pytest.mark.parametrize(
    "change",
    [
        {"rows": 3},
        {"rows": MOST_ROWS + 1},
        {"rows": "many"},
        {"keys": "no base 64"},
        {"values": ""},
        {"counts": None},
    ],
)
def test_a_changed_document_is_refused(change):
    document = {**Sketch.of(KEYS, [ERRORS]).to_json(), **change}
    with pytest.raises(InputError, match="table of samples in the report cannot be read"):
        Sketch.from_json(document)

"""Values as tables: which are rows and which columns, and what is left out."""

import numpy as np
import pytest

from tfmp.converters.drift.views.evidence import Evidence
from tfmp.converters.drift.views.tables import as_signal, difference, tables_of

KEYS = np.arange(12, dtype=np.uint64)


def counted(*shape: int) -> np.ndarray:
    """Values that are their own places in a sample, and the sample times 10,000."""
    each = np.arange(np.prod(shape)).reshape(shape)
    return (10_000 * KEYS.reshape(-1, *[1] * len(shape)) + each).astype(np.float32)


def evidence(reference: np.ndarray, axis: int = -1) -> Evidence:
    return Evidence.of(KEYS[: len(reference)], reference, reference + 1, axis)


@pytest.mark.parametrize(
    ("shape", "rows", "columns"),
    [
        ((), 1, 1),
        ((3,), 1, 3),
        ((4, 4), 1, 16),  # few values: each is a number of its own
        ((6, 3), 6, 3),
        ((5, 2, 3), 10, 3),
        ((300,), 1, 300),
        ((40, 40, 2), 1600, 2),
    ],
)
def test_rows_and_columns(shape, rows, columns):
    (table,) = tables_of(evidence(counted(*shape)))
    assert table.reference.shape == (12, rows, columns)
    assert table.columns.tolist() == list(range(columns))
    assert table.rows.tolist() == list(range(rows))
    np.testing.assert_array_equal(table.reference.reshape(12, -1), counted(*shape).reshape(12, -1))
    assert (table.error == 1).all()
    assert table.known.all()


def test_places_are_counted_through_rows_that_are_not_whole():
    (table,) = tables_of(evidence(counted(40, 500)))
    assert len(table.places) == 2**14
    assert (table.places % 500 == table.columns).all()
    assert (table.reference[3, 0] == counted(40, 500)[3].ravel()[table.places]).all()
    (table,) = tables_of(evidence(counted(3, 5, 8), axis=1))
    assert (table.shape, table.places.tolist()) == ((5, 8, 3), [0, 1, 2])
    assert as_signal(table) is table
    assert as_signal(tables_of(evidence(counted(300)))[0]).reference.shape == (12, 300, 1)


def test_without_samples_that_are_judged_by_themselves():
    (table,) = tables_of(evidence(counted(3)), KEYS[[0, 5]])
    assert table.reference[:, 0, 0].tolist() == [10_000 * key for key in KEYS if key not in (0, 5)]
    assert tables_of(evidence(counted(3)), KEYS) == []


def test_one_output_less_another_where_both_have_the_sample():
    one, other = counted(5), 2 * counted(5)
    left = Evidence.of(KEYS[:8], one[:8], one[:8] + 1, -1)
    right = Evidence.of(KEYS[4:], other[4:], other[4:] + 3, -1)
    (part,) = difference(left, right).parts
    assert part.keys.tolist() == [4, 5, 6, 7]
    np.testing.assert_array_equal(part.values[:, 0], -one[4:8])
    np.testing.assert_array_equal(part.values[:, 1] - part.values[:, 0], np.full((4, 5), -2))
    assert difference(left, evidence(counted(6))) == Evidence()

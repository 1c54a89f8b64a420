"""Decisions by where they stand: columns, lines and places."""

import numpy as np
import pytest
from class_tables import gained, lost

from tfmp.converters.drift.cells import Cells, count_cells
from tfmp.converters.drift.classes import SUMS, ClassTable
from tfmp.converters.drift.decisions import by_argmax, by_equality, by_threshold
from tfmp.converters.drift.exact import merge

RNG = np.random.default_rng(0)


def cells(reference: np.ndarray, candidate: np.ndarray) -> Cells:
    return count_cells(reference, candidate, reference != candidate)


def only(table: ClassTable, column: int, words: str) -> str:
    """The one class of a column whose name begins with these words."""
    (name,) = (n for n in table.rows if n.startswith(words) and n.endswith(f"column {column}"))
    return name


def test_columns_have_classes_of_their_own():
    reference = np.array([[3, 0, 5000], [3, 4, 5000], [0, -1, 2]])
    candidate = np.array([[0, 0, 5001], [3, 4, 5000], [0, -1, 2]])
    found, _ = by_equality(reference, candidate)
    columns = found.cells.columns
    assert lost(found.classes, "3") == (2, 1)
    assert lost(columns, "3 in column 0") == (2, 1)
    assert gained(columns, "0 in column 0") == (2, 1)
    assert lost(columns, "-1 in column 1") == (1, 0)
    far = [name for name in columns.rows if name.startswith("a number of group")]
    assert [lost(columns, name) for name in far if columns.rows[name][0]] == [(2, 1)]
    parts = [by_equality(reference[i : i + 1], candidate[i : i + 1])[0] for i in range(3)]
    assert merge(*parts) == found


@pytest.mark.parametrize("offset", [0, 300, -400, 10**12])
def test_numbers_past_those_with_classes_share_few(offset: int):
    """A value of thirty samples is always another one, wherever its numbers begin."""
    reference = RNG.integers(0, 80, (2000, 40))
    candidate = reference.copy()
    candidate[:, 5][reference[:, 5] == 7] = 8
    table = cells(reference + offset, candidate + offset).columns
    rates = [
        lost(table, name)[1] / lost(table, name)[0]
        for name in table.rows
        if name.endswith("column 5") and table.rows[name][0]
    ]
    assert max(rates) > 0.3


def test_texts_have_classes_and_none_has_its_own():
    reference = np.array([["left", ""], ["stop", "x"], ["stop", ""], ["left", "x"]], dtype=object)
    candidate = reference.copy()
    candidate[1:3, 0], candidate[:, 1] = "left", ""
    for dtype in (object, "U8", "S8"):
        table = cells(reference.astype(dtype), candidate.astype(dtype)).columns
        stop, left = (
            name
            for name, row in sorted(table.rows.items(), key=lambda item: -item[1][2])
            if name.endswith("column 0")
        )
        assert (lost(table, stop), lost(table, left)) == ((2, 2), (2, 0))
        assert lost(table, only(table, 1, "a text")) == (2, 2)
        assert gained(table, only(table, 1, "no text")) == (4, 2)


def test_a_short_last_axis_holds_columns_in_which_a_sample_is_one_cluster():
    reference = np.array([[[1, 0], [1, 0], [1, 1]], [[0, 0], [1, 0], [0, 0]]], bool)
    candidate = reference.copy()
    candidate[0, :, 0] = False
    found = cells(reference, candidate)
    assert found.columns.rows["1 in column 0"][: len(SUMS)].tolist() == [2, 4, 3, 9, 9, 10, 1]
    assert lost(found.lines, "1 at 0 of axis 1") == (1, 1)
    assert lost(found.lines, "1 at (2, 0)") == (1, 1)


@pytest.mark.parametrize(
    ("shape", "column", "line"),
    [
        ((6, 40), True, False),
        ((6, 40, 1), True, False),
        ((6, 1, 40, 1), True, False),
        ((6, 12, 200), False, True),
        ((6, 200, 12), True, True),
        ((6, 28, 28), False, True),
        ((6, 2000), True, False),
        ((6, 2049), False, False),
        ((6, 512, 512), False, True),
        ((6, 40, 3000), False, True),
        ((6,), False, False),
        ((6, 1, 1), False, False),
    ],
)
def test_the_shape_alone_says_what_is_counted(shape, column: bool, line: bool):
    values = (np.arange(np.prod(shape)).reshape(shape) % 7) > 3
    found = cells(values, values)
    assert (bool(found.columns.rows), bool(found.lines.rows)) == (column, line)
    assert max(len(found.columns.rows), len(found.lines.rows)) <= 4096


def test_flags_that_are_floats_have_lines_and_ties_do_not_count():
    reference = np.where(RNG.random((50, 16, 2)) < 0.3, 0.9, 0.1)
    candidate = reference.copy()
    candidate[:, 3] = 0.1
    tied = np.where(reference == 0.9, 0.501, 0.1)
    named = "yes at 3 of axis 1"
    for one, other, share in ((reference, candidate, 1), (tied, candidate, 0)):
        found, _ = by_threshold(one, other, 0.5)
        said, gone = lost(found.cells.lines, named)
        assert gone == share * said > 0 or (share == 0 and gone == 0)
    assert "yes at (3, 1)" in found.cells.lines.rows
    assert not [name for name in found.cells.lines.rows if name.endswith("axis 2")]


def test_flags_with_an_axis_of_one_behind_them_have_lines_and_one_label():
    flags = RNG.random((20, 5, 1)) < 0.5
    found, _ = by_threshold(flags.astype(float), flags.astype(float), 0.5)
    assert list(found.classes.rows) == ["0"]
    assert lost(found.cells.lines, "yes at 3 of axis 1") == (flags[:, 3].sum(), 0)
    assert by_threshold(flags[..., 0], flags[..., 0], 0.5)[0].cells == Cells()


@pytest.mark.parametrize("axis", [-1, 1])
def test_questions_with_scores_have_lines(axis: int):
    scores = np.moveaxis(np.eye(4)[RNG.integers(0, 4, (60, 25))], -1, axis)
    changed = np.moveaxis(scores.copy(), axis, -1)
    changed[:, 7] = np.eye(4)[3]
    found, _ = by_argmax(scores, np.moveaxis(changed, -1, axis), axis)
    said, gone = lost(found.cells.lines, "0 at 7 of axis 1")
    assert said == gone > 0
    assert not by_argmax(scores, scores, axis, guess=True)[0].cells.lines.rows


def test_one_hot_rows_have_columns():
    rows = np.eye(4, dtype=np.uint8)[RNG.integers(0, 4, (60, 25))]
    changed = rows.copy()
    changed[:, 7] = np.eye(4, dtype=np.uint8)[3]
    found, _ = by_equality(rows, changed)
    said, gone = lost(found.cells.columns, "0 in column 7")
    assert said == gone > 0

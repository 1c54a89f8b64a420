"""The values of an output as tables: samples, rows and columns, from the evidence that was kept."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tfmp.converters.drift import less_mean
from tfmp.converters.drift.views.evidence import Evidence, Part, Shape, places_of
from tfmp.shared.numerics import ulp

# Columns side by side that are numbers of their own; more are a vector or a signal.
FEW_COLUMNS = 16


@dataclass(frozen=True)
class Table:
    """Samples of one shape in float64, the columns last.

    Attributes:
        reference: (samples, rows, columns), 0 where either side is not finite. Of many columns
            there is one row, of those that were kept.
        error: candidate less reference, in the same shape.
        known: where both sides are finite, and no number stands for a missing one.
        columns: numbers of the columns.
        places: the same, counted through all rows where rows were not kept whole.
        rows: numbers of the rows.
        shape: of a sample, the columns last.
        word: what a column is called.
        terms: of differences, the larger of both terms; None for values themselves.
    """

    reference: np.ndarray
    error: np.ndarray
    known: np.ndarray
    columns: np.ndarray
    places: np.ndarray
    rows: np.ndarray
    shape: Shape
    word: str = "column"
    terms: np.ndarray | None = None

    @property
    def size(self) -> np.ndarray:
        """The numbers that were rounded: the values, or the larger terms of differences."""
        return self.reference if self.terms is None else self.terms

    @property
    def step(self) -> np.ndarray:
        """Root mean square of the rounding of each value to FP16; differences are of two."""
        return ulp(self.size) * np.sqrt((1.0 if self.terms is None else 2.0) / 12.0)


def tables_of(evidence: Evidence, without: np.ndarray | None = None) -> list[Table]:
    """The values of an output.

    Args:
        evidence: of one output.
        without: keys of samples to leave out.
    """
    found = []
    for part in evidence.parts:
        kept = part.values if without is None else part.values[~np.isin(part.keys, without)]
        if len(kept):
            found.append(_table(part, kept.astype(np.float64), len(evidence.parts) == 1))
    return found


def _table(part: Part, values: np.ndarray, alone: bool) -> Table:
    places = places_of(part.shape)[: part.whole]
    order = np.argsort(places)
    few = alone and math.prod(part.shape) <= FEW_COLUMNS  # each is a number of its own
    shape = (len(places),) if few else part.shape
    places, width = places[order], shape[-1]
    values = values[:, :, order]
    rows, columns = np.divmod(places, width)
    if (
        len(places) % width == 0
        and (columns == np.tile(columns[:width], len(places) // width)).all()
    ):
        values = values.reshape(*values.shape[:2], -1, width)
        rows, columns = rows[::width], columns[:width]
        places = columns
    else:
        values = values[:, :, None, :]
        rows = np.zeros(1, int)
    return Table(*_filled(values), columns, places, rows, shape)


def _filled(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Reference, error and what is known, of values of shape (samples, 2, rows, columns)."""
    reference, candidate = values[:, 0], values[:, 1]
    known = np.isfinite(reference) & np.isfinite(candidate)
    known &= ~(_stand_ins(reference, candidate, known) | _stand_ins(-reference, -candidate, known))
    with np.errstate(invalid="ignore"):
        error = np.where(known, candidate - reference, 0.0)
    return np.where(known, reference, 0.0), error, known


def _stand_ins(reference: np.ndarray, candidate: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Where a column holds its smallest number in place of a missing one, such as -999.

    Such a number is repeated, the same on both sides each time, and farther from all others than
    their standard deviation: beside it what the others lose looks small.
    """
    axes = (0, 1)
    lowest = np.where(known, reference, np.inf).min(axis=axes, keepdims=True)
    at = known & (reference == lowest)
    others = known & ~at
    count = np.maximum(others.sum(axis=axes, keepdims=True), 1)
    away = less_mean(np.where(others, reference, 0.0), others, axes)
    squares = np.square(away).sum(axis=axes, keepdims=True)
    with np.errstate(invalid="ignore"):  # a column without numbers
        gap = np.where(others, reference, np.inf).min(axis=axes, keepdims=True) - lowest
    repeated = at.sum(axis=axes, keepdims=True) > 1
    same = (~at | (candidate == reference)).all(axis=axes, keepdims=True)
    apart = (squares > 0) & (gap > np.sqrt(squares / count))
    return np.asarray(at & repeated & same & apart)


def as_signal(table: Table) -> Table:
    """One row of many columns, such as a forecast, as places of one column; others as they are."""
    if table.reference.shape[1] > 1 or len(table.columns) <= FEW_COLUMNS:
        return table
    reference, error, known = (
        each.transpose(0, 2, 1) for each in (table.reference, table.error, table.known)
    )
    one = np.zeros(1, int)
    return Table(reference, error, known, one, one, table.places, (*table.shape, 1))


def by_place(tables: Sequence[Table]) -> list[Table]:
    """Each place as a column of its own, of samples that have several axes and one shape."""
    if len(tables) != 1 or len(tables[0].shape) < 2:
        return []
    (table,) = tables
    sides = table.reference, table.error, table.known
    reference, error, known = (each.reshape(len(each), 1, -1) for each in sides)
    places = (table.rows[:, None] * table.shape[-1] + table.places).ravel()
    size, row = (math.prod(table.shape),), np.zeros(1, int)
    return [Table(reference, error, known, places, places, row, size, "place")]


def outlying(evidence: Evidence) -> tuple[np.ndarray, np.ndarray]:
    """The keys of samples, and by how many standard deviations the reference of each stands out."""
    keys, sizes = [np.empty(0, np.uint64)], [np.empty(0)]
    for part in evidence.parts:
        values = part.values[:, 0].astype(np.float64)
        known = np.isfinite(values)
        away = less_mean(np.where(known, values, 0.0), known, 0)
        deviation = np.sqrt(np.square(away).mean(axis=0))
        keys.append(part.keys)
        sizes.append((np.abs(away) / np.where(deviation, deviation, np.inf)).max(axis=1))
    return np.concatenate(keys), np.concatenate(sizes)


def difference(one: Evidence, other: Evidence) -> Evidence:
    """One output less another of its shape, on the samples that both have."""
    shapes = {part.shape: part for part in other.parts}
    parts = []
    for part in one.parts:
        beside = shapes.get(part.shape)
        if beside is None:
            continue
        keys, left, right = np.intersect1d(part.keys, beside.keys, return_indices=True)
        kept = min(part.kept, beside.kept)
        with np.errstate(invalid="ignore"):
            values = part.values[left][:, :, :kept] - beside.values[right][:, :, :kept]
        if len(keys):
            parts.append(Part(part.shape, keys, values))
    return Evidence(parts)

"""Distances by column and place, what lies between columns, and samples to judge by themselves."""

from functools import cache

import numpy as np

from tfmp.converters.drift import (
    Along,
    Distances,
    Kind,
    Sketch,
    Slices,
    Task,
    TotalsFields,
    measure_distances,
)
from tfmp.converters.drift.columns.places import OFF, Off, measure_places
from tfmp.converters.drift.detection import turned
from tfmp.shared.numerics import FLOAT16, ulp


def distances_by_column(
    reference: np.ndarray,
    candidate: np.ndarray,
    task: Task | None,
    found: TotalsFields,
    keys: np.ndarray | None,
) -> tuple[Distances, TotalsFields]:
    """Distances of whole samples, and by slice but where nobody reads these: class scores, ids."""
    kind = task.kind if task else None
    unread = (Kind.CLASSIFICATION, Kind.IDS, Kind.TOKENS, Kind.DETECTION)
    if kind in unread or (kind is None and found["normalized"]):
        return measure_distances(reference, candidate), {}
    axis = (task.axis if task else -1) % reference.ndim
    measured, sliced = _sliced(reference, candidate, axis, kind)
    along = measured.planes if measured.columns is None else measured.columns
    ends = along.edges[:2] if along is not None else np.zeros((2, 1))
    if ends.min(initial=0) <= _LEAST_MASK or ends.max(initial=0) >= _LEAST_FILL:
        filled = _filled(reference, candidate)
        if filled.any():
            reference, candidate = (np.where(filled, 0, each) for each in (reference, candidate))
            measured, sliced = _sliced(reference, candidate, axis, kind)
    chosen = {"off": measured.error_sq > OFF**2 * measured.reference_sq}
    if kind in _TURNING and axis == reference.ndim - 1 and keys is not None:
        which, turns = turned(reference, candidate, measured.fields["max_abs"], OFF)
        if turns:
            chosen = {"off": chosen["off"] & ~which, "turned": which}
            sliced |= {"turns": turns, "turned_rows": Sketch.of(keys[which], [which[which]])}
    for name, which in chosen.items():
        if which.any():
            parts = reference[which], candidate[which]
            theirs = sliced if which.all() else _sliced(*parts, axis, kind)[1]
            own = {each: theirs[each] for each in _BY_SLICE if each in theirs}
            sliced[name] = Off(int(np.count_nonzero(which)), parts[0].size, **own)
    if task is None:
        sliced |= _whole_numbers(reference, candidate)
    return measured, sliced


# The least of fill values, such as -99, -9999 and masks of -1e9, if they are below 0, and if not;
# other values are smaller by this factor at least; and what the candidate writes is off by this
# share at most.
_LEAST_MASK, _LEAST_FILL, _FILL_FACTOR, _FILL_OFF = -99.0, 999.0, 10.0, 0.01


def _filled(reference: np.ndarray, candidate: np.ndarray) -> np.ndarray:
    """Flags of fill values on both sides, beside which others would not count.

    A fill value comes more than once in a sample, and is much larger than all of its others. Where
    FP16 has no number for it, the candidate writes its smallest one.
    """
    samples = len(reference)
    one, other = (values.reshape(samples, -1) for values in (reference, candidate))
    size = np.abs(one)
    most = size.max(axis=1, keepdims=True)
    if not np.isfinite(most).all():
        size[~np.isfinite(size)] = 0
        most = size.max(axis=1, keepdims=True)
    flags = (size == most) & ((most >= _LEAST_FILL) | (one <= _LEAST_MASK))
    flags &= np.count_nonzero(flags, axis=1, keepdims=True) > 1
    if flags.any():
        rest = np.where(flags, 0, size).max(axis=1, keepdims=True)
        flags &= (rest > 0) & (rest <= most / _FILL_FACTOR)
        with np.errstate(invalid="ignore"):
            ended = np.maximum(one, -FLOAT16.max) >= other
            flags &= (np.abs(other - one) <= _FILL_OFF * most) | (ended & (one < -FLOAT16.max))
    return flags.reshape(reference.shape)


# Fields of `Off`.
_BY_SLICE = ("slices", "planes", "extents", "contrasts", "places")

# Kinds that may hold angles and quaternions.
_TURNING = frozenset({None, Kind.OTHER, Kind.REGRESSION})


def _sliced(
    reference: np.ndarray, candidate: np.ndarray, axis: int, kind: Kind | None
) -> tuple[Distances, TotalsFields]:
    """Distances of whole samples, and by slice and place."""
    several = reference.ndim > 2
    places = measure_places(reference, candidate, axis)
    if several and axis == 1:
        measured = measure_distances(reference, candidate, planes=True)
        slices = planes = Slices.summed(measured.planes)
        extents: TotalsFields = {"corners": False}
    else:
        if several:
            reference, candidate = (np.moveaxis(each, axis, -1) for each in (reference, candidate))
        measured = measure_distances(reference, candidate, columns=True, planes=several)
        slices, planes = Slices.summed(measured.columns), Slices.summed(measured.planes)
        extents = _extents(reference, candidate)
        if kind is None or (kind is Kind.REGRESSION and reference.shape[-1] <= _EACH_TWO):
            extents |= _contrasts(reference, candidate)
    if kind is Kind.EMBEDDING:
        planes = Slices()
    return measured, {"slices": slices, "planes": planes, "places": places, **extents}


# Widths of rows that begin with two ends or corners; a score and a class may stand behind them.
_CORNERS = (2, 4, 5, 6)


def _extents(reference: np.ndarray, candidate: np.ndarray) -> TotalsFields:
    """Distances between the corners of boxes or ends of intervals, which their own do not show."""
    width = reference.shape[-1]
    half = min(2, width // 2)
    known = width in _CORNERS and (reference[..., half : 2 * half] >= reference[..., :half]).all()
    if not known:
        return {"corners": False}
    with np.errstate(invalid="ignore", over="ignore"):
        one, other = (
            np.subtract(values[..., half : 2 * half], values[..., :half], dtype=np.float64)
            for values in (reference, candidate)
        )
    return {"extents": Slices.of(one, other, -1)}


# Columns of which each two are compared, and those of which neighbours are.
_EACH_TWO, _NEIGHBOURS = 8, 32

# Values of a sample among which whole numbers and differences are looked for.
FEW_VALUES = 256


@cache
def contrast_pairs(columns: int) -> np.ndarray:
    """The pairs of columns whose differences are compared, of shape (2, pairs)."""
    if columns > _NEIGHBOURS:
        return np.zeros((2, 0), np.intp)
    one, other = np.triu_indices(columns, 1)
    return np.stack([one, other])[:, (other - one == 1) | (columns <= _EACH_TWO)]


def _contrasts(reference: np.ndarray, candidate: np.ndarray) -> TotalsFields:
    """Differences between columns that vary together, which their own sizes do not show."""
    columns = reference.shape[-1] if reference.ndim > 1 else 1
    first, second = contrast_pairs(columns)
    if not len(first) or reference.size > len(reference) * FEW_VALUES:
        return {}
    with np.errstate(invalid="ignore", over="ignore"):
        one, other = (
            np.subtract(values[:, second], values[:, first], dtype=np.float64)
            for values in (each.reshape(-1, columns) for each in (reference, candidate))
        )
        error = other - one
        sums = np.stack([error * error, one * one, one])
    if not np.isfinite(sums).all():
        sums = np.where(np.isfinite(sums).all(axis=0), sums, 0.0)
    return {"contrasts": Slices.summed(Along(sums, np.zeros((4, len(first)))))}


def _whole_numbers(reference: np.ndarray, candidate: np.ndarray) -> TotalsFields:
    """How often whole numbers become others, by column; they may be names among amounts."""
    return _renamed(reference, candidate) | _by_whole_column(reference, candidate)


# Whole numbers between these are names or amounts that FP16 may round to others. Larger ones of
# float32 may be whole because it has no others.
_ROUNDED_ABOVE, _WHOLE_BELOW = 2.0**11, 2.0**20


def _renamed(reference: np.ndarray, candidate: np.ndarray) -> TotalsFields:
    """Whether all values are whole numbers, and how many become others that FP16 may round."""
    # The first sample tells most often, without a look at all the others.
    if not all((values == np.rint(values)).all() for values in (reference[:1], reference)):
        return {"whole": False}
    size = np.abs(reference)
    rounded = (size > _ROUNDED_ABOVE) & (size < _WHOLE_BELOW) & (np.rint(candidate) != reference)
    return {"renamed": int(np.count_nonzero(rounded))}


def _by_whole_column(reference: np.ndarray, candidate: np.ndarray) -> TotalsFields:
    few = 1 < reference.ndim < 4 and reference.size <= len(reference) * FEW_VALUES
    if not few or not 1 < reference.shape[-1] <= _NEIGHBOURS:
        return {}
    one, other = (values.reshape(-1, values.shape[-1]) for values in (reference, candidate))
    fraction = one != np.rint(one)
    with np.errstate(invalid="ignore"):
        step = ~fraction & (np.abs(other - one) > np.maximum(0.5, ulp(one)))
    counts = (np.count_nonzero(flags, axis=0).tolist() for flags in (fraction, step))
    return dict(zip(("fractions", "steps"), map(tuple, counts), strict=True))

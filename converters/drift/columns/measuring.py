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
    is_forbidding,
    measure_distances,
    names_scores,
    reads_ratios,
)
from tfmp.converters.drift.columns.grid import even
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
        measured = measure_distances(reference, candidate)
        most = _MOST_SHARES if kind is None else _MOST_TOPICS if reads_ratios(task) else 0
        shares = found["normalized"] and reference.shape[-1] <= most
        # Whether rows of a telling name add up, all batches together will tell.
        shares |= names_scores(task) and reference.ndim == 2 and reference.shape[1] <= _MOST_TOPICS
        return measured, _shares(reference, candidate, measured) if shares else {}
    axis = (task.axis if task else -1) % reference.ndim
    measured, sliced = _sliced(reference, candidate, axis, kind)
    along = measured.planes if measured.columns is None else measured.columns
    ends = along.edges[:2] if along is not None else np.zeros((2, 1))
    infinite = measured.fields["nonfinite"]  # such values have no ends
    if ends.min(initial=0) <= _LEAST_MASK or ends.max(initial=0) >= _LEAST_FILL or infinite:
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
    if kind in (None, Kind.REGRESSION):
        sliced |= _whole_numbers(reference, candidate)
    return measured, sliced


# Fill values, such as 9999, -99 and masks of -30 and -1e9, are these at least, if they are above 0
# and if not; other values are smaller by such a factor; and what the candidate writes is off by
# this share at most.
_LEAST_FILL, _LEAST_MASK, _FILL_FACTOR, _MASK_FACTOR, _FILL_OFF = 999.0, -20.0, 10.0, 2.0, 0.01


def _filled(reference: np.ndarray, candidate: np.ndarray) -> np.ndarray:
    """Flags of fill values on both sides, beside which others would not count.

    A fill value comes more than once in a sample, or is a power of ten that nobody measures, and is
    much larger than all of its others. Where FP16 has no number for it, the candidate writes its
    last one or infinity.
    """
    one, other = (values.reshape(len(reference), -1) for values in (reference, candidate))
    finite = np.isfinite(one)
    known = one if finite.all() else np.where(finite, one, 0)
    least, most = known.min(axis=1), known.max(axis=1)
    masked = (least <= _LEAST_MASK) & (most <= least / -_MASK_FACTOR)
    which = masked | ((most >= _LEAST_FILL) & (least >= most / -_FILL_FACTOR))
    flags = np.zeros(one.shape, bool)
    if which.any():
        fill = np.where(masked, least, most)[which, None]
        factor = np.where(masked, _MASK_FACTOR, _FILL_FACTOR)[which, None]
        flags[which] = _are_fill(known[which], other[which], fill, factor)
    return flags.reshape(reference.shape)


def _are_fill(
    one: np.ndarray, other: np.ndarray, fill: np.ndarray, factor: np.ndarray
) -> np.ndarray:
    flags, certain = one == fill, is_forbidding(fill)
    flags &= (np.count_nonzero(flags, axis=1, keepdims=True) > 1) | certain
    if flags.any():
        rest, size = np.abs(np.where(flags, 0, one)).max(axis=1, keepdims=True), np.abs(fill)
        flags &= ((rest > 0) | certain) & (rest <= size / factor)
        with np.errstate(invalid="ignore"):
            ended = (np.maximum(one, -FLOAT16.max) >= other) & (one < -FLOAT16.max)
            ended |= certain & (other >= FLOAT16.max) & (one > 0)
            flags &= (np.abs(other - one) <= _FILL_OFF * size) | ended
    return flags


# Rows that add up to 1 may be shares of a whole, of so many parts, or scores of classes; of more
# parts, if the loss reads small ones.
_MOST_SHARES, _MOST_TOPICS = 16, 64


def _shares(reference: np.ndarray, candidate: np.ndarray, measured: Distances) -> TotalsFields:
    """Distances of the columns of rows that add up to 1."""
    found: TotalsFields = {"slices": Slices.of(reference, candidate, -1)}
    off = measured.error_sq > OFF**2 * measured.reference_sq
    if off.any():
        theirs = Slices.of(reference[off], candidate[off], -1)
        found["off"] = Off(int(np.count_nonzero(off)), reference[off].size, slices=theirs)
    return found


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

# Values of a sample among which whole numbers are looked for, and of which differences are taken.
FEW_VALUES = 256


@cache
def contrast_pairs(columns: int) -> np.ndarray:
    """The pairs of columns whose differences are compared, of shape (2, pairs)."""
    if columns > _NEIGHBOURS:
        return np.zeros((2, 0), np.intp)
    one, other = np.triu_indices(columns, 1)
    return np.stack([one, other])[:, (other - one == 1) | (columns <= _EACH_TWO)]


@cache
def contrast_rows(grid: tuple[int, ...], columns: int) -> np.ndarray:
    """The rows of a sample in which columns are compared: a few of many.

    Args:
        grid: shape of a sample without its columns.
        columns: their number.
    """
    return even(grid, max(1, FEW_VALUES // columns))


def _contrasts(reference: np.ndarray, candidate: np.ndarray) -> TotalsFields:
    """Differences between columns that vary together, which their own sizes do not show."""
    columns = reference.shape[-1] if reference.ndim > 1 else 1
    first, second = contrast_pairs(columns)
    if not len(first):
        return {}
    rows = [each.reshape(len(each), -1, columns) for each in (reference, candidate)]
    few = contrast_rows(reference.shape[1:-1], columns)
    if len(few) < rows[0].shape[1]:
        rows = [values.take(few, axis=1) for values in rows]
    with np.errstate(invalid="ignore", over="ignore"):
        one, other = (
            np.subtract(values[:, second], values[:, first], dtype=np.float64)
            for values in (each.reshape(-1, columns) for each in rows)
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

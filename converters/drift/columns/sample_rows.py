"""The rows of `Totals.rows`: what is kept of each distinct sample, and who is looked at alone."""

import hashlib

import numpy as np

from tfmp.converters.drift import Distances, Kind, Sketch, Task, names_labels
from tfmp.converters.drift.columns.within import lost_within, may_vary

# The columns of `Totals.rows` after error and norm: the readings whose decisions have shares there.
SHARES = ("argmax", "half", "zero", "equality", "boxes")

# Behind these, what `looked_at` gives: marks, and what varies within a sample.
MARKS = slice(2 + len(SHARES), 4 + len(SHARES))
WITHIN = slice(MARKS.stop, MARKS.stop + 5)

# Last, the errors of samples that are so many numbers at most, one for each; else zeros.
COLUMNS = slice(WITHIN.stop, WITHIN.stop + 16)

# Kinds that read integers as amounts, such as grey levels, and not as names.
NUMBERS = frozenset(
    {Kind.REGRESSION, Kind.EMBEDDING, Kind.RECONSTRUCTION, Kind.DETECTION, Kind.OTHER}
)


def rows_of(
    keys: np.ndarray | None,
    error: np.ndarray,
    norm: np.ndarray,
    shares: dict[str, np.ndarray],
    found: np.ndarray,
) -> Sketch:
    """The rows of one batch.

    Args:
        keys: a key for each sample; None to keep no rows.
        error: L2 error of each sample.
        norm: L2 norm of each reference.
        shares: of decisions that changed, by the name of their reading.
        found: what `looked_at` gives.
    """
    if keys is None or len(keys) != len(error):
        return Sketch()
    nothing = np.zeros(len(keys))
    return Sketch.of(keys, [error, norm, *(shares.get(name, nothing) for name in SHARES), *found])


# Samples that are off by more than this share of their size, which is four to eight spacings of
# FP16, are looked at by themselves; those of more values get no mark, as hashing takes long.
_MORE, _MOST_MARKED = 2.0**-8, 2**13


def looked_at(
    reference: np.ndarray, candidate: np.ndarray, task: Task | None, distances: Distances
) -> np.ndarray:
    """Numbers for each sample, (23, samples).

    Of those that may be wrong by themselves, the first is the same for the same answers of the
    candidate: a hash of 24 bits, which float32 holds. Then follow their L2 norm, and what
    `lost_within` gives; zeros for others. The last 16 are errors of single numbers; see `COLUMNS`.
    """
    found = no_look(len(candidate))
    read = task is None or task.kind in NUMBERS - {Kind.DETECTION} or names_labels(task)
    if not read:
        return found
    each = candidate.size // max(1, len(candidate))
    if candidate.ndim < 3 and 0 < each <= COLUMNS.stop - COLUMNS.start:
        with np.errstate(over="ignore", invalid="ignore"):
            errors = np.abs(np.subtract(candidate, reference, dtype=np.float64)).reshape(-1, each).T
        found[WITHIN.stop - MARKS.start :][:each] = np.where(np.isfinite(errors), errors, 0)
    off = distances.error_sq > _MORE**2 * distances.reference_sq
    axis = (task.axis if task else -1) % reference.ndim
    for at in np.flatnonzero(off | may_vary([distances.columns, distances.planes], each)):
        if off[at] and each <= _MOST_MARKED:
            data = (candidate[at] + candidate.dtype.type(0)).tobytes()  # -0.0 is 0.0
            digest = hashlib.blake2b(data, digest_size=3).digest()
            size = np.linalg.norm(candidate[at].astype(np.float64).ravel())
            found[:2, at] = int.from_bytes(digest) + 1, size
        lost = lost_within(reference[at], candidate[at], axis - 1)
        found[2 : 2 + len(lost), at] = lost
    return found


def no_look(samples: int) -> np.ndarray:
    """What `looked_at` gives of samples that nobody looks at."""
    return np.zeros((COLUMNS.stop - MARKS.start, samples))

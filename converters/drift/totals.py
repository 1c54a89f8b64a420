"""What one batch says about one output, in a form that merges exactly.

Every field is an integer, a maximum, a flag or an exact sum (`exact.py`). Within one sample values
are summed by NumPy in float64; across samples nothing is rounded. So any split of the data into
batches or shards, merged in any order, gives the same `Totals`, bit for bit.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfmp.converters.drift.exact import Common, Expansion, Histogram, fold, merge
from tfmp.numerics import FLOAT16, ulp

# Histogram of |candidate - reference| in FP16 spacings at the reference: 0, (0, 1/2), [1/2, 1),
# [1, 2), [2, 4) ... [512, 1024), 1024 and more.
ULP_LABELS = (
    "none",
    "under 1/2",
    "1/2 to 1",
    *(f"{2**power} to {2 ** (power + 1)}" for power in range(10)),
    "1024 and more",
)

# Upper edges of the reference's top-1 margin (best minus second score); the last bin is open.
MARGIN_EDGES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)

TOP_K = 5

# FP32 softmax rows add up to 1 within far less; FP16 ones within about classes * 2**-12.
_ROW_SUM_TOLERANCE = 1e-3

# Elements worked on at a time: a few float64 arrays of this size stay in a core's L2 cache.
_CHUNK = 2**15


@dataclass(frozen=True)
class Totals:
    """Everything counted about one output of a candidate, over some set of samples.

    Differences, sums and maxima cover the values that are finite on both sides; the others are
    counted by kind and are never averaged.

    Attributes:
        dtype: of the reference's output; "" if batches disagreed.
        samples: rows of the batch axis.
        values: elements.
        error_sq: sum of (candidate - reference)**2.
        error_abs: sum of |candidate - reference|.
        reference_sq: sum of reference**2.
        candidate_sq: sum of candidate**2.
        dot: sum of reference * candidate.
        kl: sum over distributions of KL(reference || candidate), nats.
        distributions: rows of the last axis that went into `kl`.
        max_abs: largest |candidate - reference|.
        worst_rel_l2: largest relative L2 error of a single sample.
        unequal: values that differ, where values are compared by equality.
        unequal_rows: samples with such a value.
        nonfinite: candidate not finite where the reference is, or NaN where the reference is
            infinite.
        reference_nan: reference is NaN.
        reference_infinite: reference is infinite.
        infinite_lost: reference is infinite, candidate is finite or has the other sign.
        saturated: candidate sits at the largest FP16 value and the reference lies beyond it.
        ulps: histogram, see `ULP_LABELS`.
        class_scores: every batch was rank 2 with more than one column.
        one_score: every batch had one value a sample.
        unit: every reference value lay in [0, 1].
        normalized: every row of the reference's last axis added up to 1.
        argmax_flips: samples whose largest score is another class.
        threshold_flips: samples with a value on the other side of 0.5.
        top_k_hits: the reference's top-k classes that are in the candidate's top k.
        top_k_slots: the reference's top-k classes in all.
        margin_samples: samples by the reference's margin, see `MARGIN_EDGES`.
        margin_flips: argmax flips by the reference's margin.
        reference_row: digest of the row that all samples share; "" if they differ.
        candidate_row: the same for the candidate.
    """

    dtype: Common = None
    samples: int = 0
    values: int = 0
    error_sq: Expansion = ()
    error_abs: Expansion = ()
    reference_sq: Expansion = ()
    candidate_sq: Expansion = ()
    dot: Expansion = ()
    kl: Expansion = ()
    distributions: int = 0
    max_abs: float = 0.0
    worst_rel_l2: float = 0.0
    unequal: int = 0
    unequal_rows: int = 0
    nonfinite: int = 0
    reference_nan: int = 0
    reference_infinite: int = 0
    infinite_lost: int = 0
    saturated: int = 0
    ulps: Histogram = ()
    class_scores: bool = True
    one_score: bool = True
    unit: bool = True
    normalized: bool = True
    argmax_flips: int = 0
    threshold_flips: int = 0
    top_k_hits: int = 0
    top_k_slots: int = 0
    margin_samples: Histogram = ()
    margin_flips: Histogram = ()
    reference_row: Common = None
    candidate_row: Common = None


def is_floating(dtype: np.dtype) -> bool:
    """Whether values are compared by distance (float, bfloat16, complex) and not by equality."""
    return dtype.kind in "fc" or dtype.name.startswith(("bfloat", "float"))


def measure(reference: np.ndarray, candidate: np.ndarray) -> Totals:
    """Compares one batch of one output.

    Args:
        reference: any shape and dtype; axis 0 is the batch.
        candidate: same shape.
    """
    if not is_floating(reference.dtype):
        return _measure_equality(reference, candidate)
    dtype = str(reference.dtype)
    reference, candidate = _real(reference), _real(candidate)
    rows = len(reference)
    step = max(1, _CHUNK // max(1, reference[:1].size))
    result = Totals(dtype=dtype)
    for start in range(0, rows, step):
        part = slice(start, start + step)
        result = merge(result, _measure_rows(reference[part], candidate[part]))
    return result


def _real(array: np.ndarray) -> np.ndarray:
    """With a batch axis, complex numbers as pairs of reals, dtypes NumPy cannot reduce widened."""
    array = np.ascontiguousarray(np.atleast_1d(array))
    if array.dtype.kind == "c":
        return array.view(array.real.dtype).reshape(*array.shape, 2)
    return array if array.dtype.kind == "f" else array.astype(np.float32)


def _measure_equality(reference: np.ndarray, candidate: np.ndarray) -> Totals:
    reference, candidate = np.atleast_1d(reference), np.atleast_1d(candidate)
    different = reference != candidate
    rows = different.reshape(len(different), -1).any(axis=1)
    return Totals(
        dtype=str(reference.dtype),
        samples=len(reference),
        values=reference.size,
        unequal=int(np.count_nonzero(different)),
        unequal_rows=int(np.count_nonzero(rows)),
        class_scores=False,
        one_score=False,
        reference_row=_common_row(reference),
        candidate_row=_common_row(candidate),
    )


def _measure_rows(reference: np.ndarray, candidate: np.ndarray) -> Totals:
    rows = len(reference)
    wide_reference = reference.astype(np.float64).reshape(rows, -1)
    wide_candidate = candidate.astype(np.float64).reshape(rows, -1)
    found: dict[str, Any] = {"samples": rows, "values": reference.size}
    found |= _distances(wide_reference, wide_candidate)
    found |= _scores(wide_reference.reshape(reference.shape), candidate)
    found["reference_row"] = _common_row(reference)
    found["candidate_row"] = _common_row(candidate)
    return Totals(**found)


def _distances(reference: np.ndarray, candidate: np.ndarray) -> dict[str, Any]:
    """Sums, maxima and counts over (samples, values) in float64."""
    found: dict[str, Any] = {}
    finite = np.isfinite(reference) & np.isfinite(candidate)
    if not finite.all():
        found = _count_nonfinite(reference, candidate)
        reference, candidate = np.where(finite, reference, 0), np.where(finite, candidate, 0)
    with np.errstate(over="ignore", under="ignore"):
        error = np.abs(candidate - reference)
        error_sq = (error * error).sum(axis=1)
        reference_sq = (reference * reference).sum(axis=1)
        sums = {
            "error_sq": error_sq,
            "error_abs": error.sum(axis=1),
            "reference_sq": reference_sq,
            "candidate_sq": (candidate * candidate).sum(axis=1),
            "dot": (reference * candidate).sum(axis=1),
        }
        found |= {name: fold(values.tolist()) for name, values in sums.items()}
        spacings = error / ulp(reference, FLOAT16)
    magnitude = np.abs(candidate)
    beyond = (magnitude == FLOAT16.max) & (np.abs(reference) > FLOAT16.max)
    found["saturated"] = int(np.count_nonzero(beyond))
    found["max_abs"] = float(error.max(initial=0.0))
    found["worst_rel_l2"] = _worst(error_sq, reference_sq)
    found["ulps"] = _histogram_of_spacings(spacings[finite] if not finite.all() else spacings)
    return found


def _count_nonfinite(reference: np.ndarray, candidate: np.ndarray) -> dict[str, int]:
    reference_nan, reference_infinite = np.isnan(reference), np.isinf(reference)
    candidate_nan = np.isnan(candidate)
    new = (np.isfinite(reference) & ~np.isfinite(candidate)) | (reference_infinite & candidate_nan)
    lost = reference_infinite & ~candidate_nan & (reference != candidate)
    masks = {
        "nonfinite": new,
        "reference_nan": reference_nan,
        "reference_infinite": reference_infinite,
        "infinite_lost": lost,
    }
    return {name: int(np.count_nonzero(mask)) for name, mask in masks.items()}


def _worst(error_sq: np.ndarray, reference_sq: np.ndarray) -> float:
    """Largest sqrt(error_sq / reference_sq); a sample of zeros is infinitely off or exact."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(error_sq == 0, 0.0, error_sq / reference_sq)
    # Overflown squares give inf / inf: their size is unknown, so no finite claim is made.
    return float(np.sqrt(np.where(np.isnan(ratio), np.inf, ratio)).max(initial=0.0))


def _histogram_of_spacings(spacings: np.ndarray) -> tuple[int, ...]:
    # The exponent field of a float64 is floor(log2(x)) + 1023: one shift instead of a logarithm.
    exponent = (np.ascontiguousarray(spacings).view(np.int64) >> 52).ravel()
    index = np.clip(exponent - 1020, 1, len(ULP_LABELS) - 1)
    index[(spacings == 0).ravel()] = 0
    return tuple(np.bincount(index, minlength=len(ULP_LABELS)).tolist())


def _scores(reference: np.ndarray, candidate: np.ndarray) -> dict[str, Any]:
    """What holds for class scores and probabilities; reference is float64, shapes are as given."""
    rows = len(reference)
    found: dict[str, Any] = {
        "class_scores": reference.ndim == 2 and reference.shape[1] > 1,
        "one_score": rows > 0 and reference.size == rows,
        "unit": bool(((reference >= 0) & (reference <= 1)).all()),
        "normalized": False,
    }
    if found["unit"]:
        crossed = ((reference >= 0.5) != (candidate >= 0.5)).reshape(rows, -1).any(axis=1)
        found["threshold_flips"] = int(np.count_nonzero(crossed))
        if reference.ndim > 1 and reference.shape[-1] > 1:
            sums = reference.sum(axis=-1)
            found["normalized"] = bool((np.abs(sums - 1) <= _ROW_SUM_TOLERANCE).all())
    if found["normalized"]:
        divergence = _divergence(reference, candidate.astype(np.float64))
        found["kl"] = fold(divergence.ravel().tolist())
        found["distributions"] = divergence.size
    if found["class_scores"]:
        found |= _ranks(reference, candidate)
    return found


def _divergence(reference: np.ndarray, candidate: np.ndarray) -> np.ndarray:
    """KL(reference || candidate) over the last axis, nats, of finite candidates only.

    Both are floored at the smallest positive FP16 value, below which FP16 has nothing to say;
    otherwise one vanished probability would make the sum infinite.
    """
    floor = FLOAT16.smallest_subnormal
    reference = np.maximum(reference, floor)
    candidate = np.where(np.isfinite(candidate), np.maximum(candidate, floor), reference)
    return (reference * np.log(reference / candidate)).sum(axis=-1)


def _ranks(reference: np.ndarray, candidate: np.ndarray) -> dict[str, Any]:
    """Flips, margins and top-k hits of (samples, classes)."""
    flipped = reference.argmax(axis=1) != candidate.argmax(axis=1)
    best = np.partition(reference, -2, axis=1)[:, -2:]
    with np.errstate(invalid="ignore"):
        margin = best[:, 1] - best[:, 0]
    index = np.searchsorted(MARGIN_EDGES, margin, side="right")
    bins = len(MARGIN_EDGES) + 1
    found: dict[str, Any] = {
        "argmax_flips": int(np.count_nonzero(flipped)),
        "margin_samples": tuple(np.bincount(index, minlength=bins).tolist()),
        "margin_flips": tuple(np.bincount(index[flipped], minlength=bins).tolist()),
    }
    if reference.shape[1] > TOP_K:
        top = np.argpartition(reference, -TOP_K, axis=1)[:, -TOP_K:]
        # A tie at the candidate's k-th place counts as inside: which of them is cut is arbitrary.
        bar = np.partition(candidate, -TOP_K, axis=1)[:, -TOP_K, None]
        hits = np.take_along_axis(candidate, top, axis=1) >= bar
        found |= {"top_k_hits": int(np.count_nonzero(hits)), "top_k_slots": top.size}
    return found


def _common_row(array: np.ndarray) -> str | None:
    """Digest of the row that all samples share, "" if they differ, None without samples."""
    if len(array) == 0:
        return None
    first = array[0]
    if not (array[1:] == first).all():
        return ""
    if first.dtype.kind == "f":
        first = first + 0.0  # -0.0 equals 0.0 but has other bytes
    data = repr(first.tolist()).encode() if first.dtype.kind == "O" else first.tobytes()
    return hashlib.sha256(repr(first.shape).encode() + data).hexdigest()[:16]

"""What a piece of code needs so that FP16 does it no harm: it runs in both precisions."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial

import keras
import numpy as np

from tfmp.precision.measuring.alterations import AS_SEEN, FLAT, LARGEST, Given, altered
from tfmp.precision.measuring.calls import LOSS, Call, Outcome, Replay, directions
from tfmp.precision.measuring.errors import Array, deviation, errors, largest_finite, rounded
from tfmp.precision.measuring.first_op import FirstOp, failure, first_nonfinite_op
from tfmp.shared.backend import Tensor
from tfmp.shared.numerics import FLOAT16

# How the reason of a layer begins that runs in float32 alone.
FAILED_DRY_RUN = "failed a dry run"

# In standard deviations: errors that training feels, also on the largest numbers, to which few
# models get, and by how much float32 must be better.
_TOLERANCE, _TOLERANCE_OF_LARGEST, _BENEFIT = 0.05, 0.5, 4.0

# Sizes of gradients that arrive, as dynamic loss scales make them; they keep all below the limit.
# A step that is skipped lowers them by the last number at once.
_ARRIVING, _LARGEST_GRADIENT, _BACKOFF = (2.0**-8, 2.0**8), 2.0**12, 16.0

# A weight that forgets more of its old value at once moves by steps that 16 bits hold.
_FORGOTTEN = 0.1

# The size of gradients at the usual loss scale, and the share by which they then differ.
_USUAL_SCALE, _OFF = 2.0**15, 0.1

OWN = -1  # a piece's own code among the indices of the calls that it makes

# Gets parts in float32; tells of a problem, and of the number of calls that were made before it.
_Problem = Callable[[frozenset[int]], tuple[str, int] | None]


@dataclass
class Need:
    """The parts around a piece of code that have to be float32, with the reasons.

    Attributes:
        parts: the piece itself (`OWN`), the layers that it calls, by index of the call, and the
            layers before it (None).
        readers: the calls that get numbers past the range; None for the readers of its result.
        flat: those of the parts that only rows of one number harm.
        bounded: whether its result stays where it was as its arguments grow.
        dtypes: those of its result.
        lookups: whether lookups that it calls are in 16 bits, too.
        unscalable: whether its gradients do not grow with those that arrive, as where a custom
            gradient clips them.
    """

    parts: dict[int | None, str] = field(default_factory=dict)
    readers: dict[int | None, str] = field(default_factory=dict)
    flat: set[int | None] = field(default_factory=set)
    bounded: bool = False
    dtypes: list[str] = field(default_factory=list)
    lookups: bool = False
    unscalable: bool = False


@dataclass(frozen=True)
class _Baseline:
    """What float32 computes from one choice of numbers: results, and then gradients.

    Attributes:
        name: the choice.
        values: the numbers.
        exact: what float32 computes.
        least: standard deviations that count at least.
        limits: gives the errors that 16 bits may have, in a run of its own.
        arriving: the size of gradients at which a dynamic loss scale settles.
        fits: whether FP16 holds the results and the gradients of the inputs.
    """

    name: str
    values: list[Array]
    exact: list[Array]
    least: list[float]
    limits: Callable[[], list[float]]
    arriving: float
    fits: bool


class Measurement:
    """Runs a piece of code, the call of one layer, in both precisions.

    Attributes:
        need: what has been found.
    """

    def __init__(
        self,
        piece: Call,
        given: Sequence[Given],
        is_wide: bool,
        dtype: str,
        set_policies: Callable[[bool, bool], None],
    ) -> None:
        """Runs it in float32.

        Args:
            piece: the call.
            given: the numbers for its inputs.
            is_wide: whether its own layers are float32 already.
            dtype: the dtype of 16 bits.
            set_policies: makes its own layers, and those that it calls, float32 or as planned.
        """
        self.piece, self.given, self.dtype, self.need = piece, given, dtype, Need()
        self._set_policies, self._wide = set_policies, {OWN} if is_wide else set()
        self._values = [one.values for one in given]
        self._trained = [index for index, one in enumerate(given) if not one.is_raw]
        self._dtypes = [one.dtype for one in given]
        self._replays: dict[tuple[object, ...], Replay] = {}
        self._first = self._exact(self._values)
        try:
            piece.infers = piece.node.layer._call_has_training_arg
            _ = self._replay(["float32"] * len(given), True, True).traced
        except Exception:
            piece.infers = False
        places = enumerate(self._first.places)
        self._places = [place for index, place in places if index not in piece.passed]
        # FP16 draws other numbers of the same seed; those without one differ between float32 runs.
        unit = (part.layer for part in piece.node.unit())
        self._is_random = any(getattr(layer, "_seed_generators", ()) for layer in unit)
        self._floor = self._least(self._first)

    # --- what runs in 16 bits ---

    def run(self, is_mixed: bool) -> None:
        """Finds the parts without which the piece does not run, with float32 weights if mixed."""
        if is_mixed:
            self._keep_states()
        if any(one.is_lookup for one in self.given) and self._fails(self._parts()):
            wide = self._dtypes
            self._dtypes = [self.dtype if one.is_lookup else one.dtype for one in self.given]
            self.need.lookups = not self._fails(self._parts())
            if not self.need.lookups:
                self._dtypes = wide
        self._widen(self._fails)
        result = self._in_16_bits(self._parts()).traced.at(None)
        self.need.dtypes = [keras.backend.standardize_dtype(one.dtype) for one in result]

    def _keep_states(self) -> None:
        """Keeps own code in float32 that moves a weight's value by small steps.

        A count stands still at 2048 in FP16 and at 256 in bfloat16; moving means stop far before.
        What forgets its old value, such as the vector of a power iteration, does not.
        """
        for index in self._first.states:
            variable = self.piece.weights[index]
            if not variable._autocast:
                continue
            self._set_policies(True, True)
            dtypes = ["float32"] * len(self._values)
            ran = Replay(self.piece, dtypes, partial(_state, index))(self._values)
            slope = ran.slopes[len(dtypes) + index]
            (arrived,) = directions([slope.shape])
            if np.linalg.norm(slope - arrived) <= _FORGOTTEN * np.linalg.norm(arrived):
                reason = f"updates its own {variable.name!r}: {self.dtype} rounds small changes off"
                self.need.parts.setdefault(OWN, reason)

    def _parts(self) -> frozenset[int]:
        return frozenset(part for part in {*self.need.parts, *self._wide} if part is not None)

    def _widen(self, problem: _Problem, on: _Baseline | None = None) -> None:
        """Makes parts float32, the one called last first, until there is no problem.

        Those that it does without are taken out again. The numbers are those that show the problem.
        """
        parts, reason, added = self._parts(), "", []
        pairs = zip(self.piece.sources, self._dtypes, strict=True)
        calls = sorted({s for s, dtype in pairs if dtype != "float32" and s is not None})
        while (told := problem(parts)) is not None:
            reason = reason or told[0] + (self._first_op(on, parts) if on else "")
            before = [one for one in reversed(calls) if one < told[1]]
            left = [one for one in (OWN, *before, *calls) if one not in parts]
            if not left:
                break
            added.append(left[0])
            parts |= {left[0]}
        for one in added[:-1]:
            if problem(parts - {one}) is None:
                parts -= {one}
        self.need.parts.update(dict.fromkeys(parts & set(added), reason))

    def _fails(self, parts: frozenset[int]) -> tuple[str, int] | None:
        try:
            _ = self._in_16_bits(parts).traced
        except Exception as error:
            return self._failure(error)
        return None

    def _failure(self, error: Exception) -> tuple[str, int]:
        reason = f"{FAILED_DRY_RUN} in {self.dtype}: {failure(error)}"
        return reason, max(self.piece.answered, default=-1) + 1

    # --- what 16 bits harm ---

    def measure(self) -> None:
        """Finds the parts that FP16 harms, on the numbers as they are and on altered ones."""
        if not self._first.results:
            return
        self.need.unscalable = self._is_unscalable()
        for name, values in altered(self.given):
            before = set(self.need.parts)
            baseline = self._baseline(name, values)
            self._widen(partial(self._harm, on=baseline), baseline)
            if name in FLAT:
                self.need.flat |= self.need.parts.keys() - before
            if name == LARGEST:
                self.need.bounded = _largest(baseline.exact) <= 2 * _largest(self._first.results)

    def _is_unscalable(self) -> bool:
        one, scaled = self._first.slopes, self._exact(self._values, _USUAL_SCALE).slopes
        # Slopes that differ from one run to the next anyway tell nothing.
        differ = not all(map(_alike, scaled, one))
        return differ and all(map(_alike, self._exact(self._values).slopes, one))

    def _harm(self, parts: frozenset[int], on: _Baseline) -> tuple[str, int] | None:
        end, count = len(self.piece.inner), len(self._places)
        tolerance = _TOLERANCE if on.name != LARGEST else _TOLERANCE_OF_LARGEST
        try:
            found = self._settled(on, parts)
        except Exception as raised:  # some of the parts alone make dtypes that do not meet
            return self._failure(raised)
        lost = errors(self._numbers(found), on.exact, on.least)
        places = [end if place in (None, LOSS) else place for place in self._places]
        places += [end] * (len(lost) - count)
        for place, index in sorted((place, index) for index, place in enumerate(places)):
            error, is_infinite = lost[index], lost[index] == np.inf
            counts = on.name != LARGEST if is_infinite else not self._is_random
            if counts and error > tolerance and error > on.limits()[index]:
                of = "standard deviation" if index < count else "gradients"
                return _loss(error, of, on.name), place
        return None

    def _first_op(self, on: _Baseline, parts: frozenset[int]) -> str:
        """The first operation that makes infinity or NaN, its place and the remedy, as an end."""
        replay = self._in_16_bits(parts)
        with np.errstate(over="ignore"), suppress(Exception):  # it may need a graph around it
            sources = replay.sources(on.values)
            found = first_nonfinite_op(lambda *given: replay.run(list(given)), *sources)
            if found and found.where:
                return f": {found.name} at {found.where}{_remedy(found, on)}"
        return ""

    def _settled(self, on: _Baseline, parts: frozenset[int]) -> Outcome:
        """In 16 bits, where the loss scale has settled: gradients that are not finite lower it."""
        arriving = on.arriving
        while True:
            found = self._in_16_bits(parts)(on.values, arriving)
            if arriving <= _ARRIVING[0] or all(np.isfinite(one).all() for one in found.slopes):
                return found
            arriving = max(arriving / _BACKOFF, _ARRIVING[0])

    def _baseline(self, name: str, values: list[Array]) -> _Baseline:
        """Computes in float32, and notes what float32 of this piece alone would not mend."""
        first = self._exact(values) if name != AS_SEEN else self._first
        exact, count = self._numbers(first), len(self._places)
        changing = [np.inf if place == LOSS else 0.0 for place in self._places]
        least = self._floor if name in FLAT else changing + self._least(first)[count:]
        arriving = _arriving(exact[count:])
        sizes = [1.0] * count + [arriving] * (len(exact) - count)
        scaled = [one * size for one, size in zip(exact, sizes, strict=True)]

        @cache
        def limits() -> list[float]:
            alone = self._numbers(self._exact(self._rounded(values), arriving))
            floors = [one * size for one, size in zip(least, sizes, strict=True)]
            stored = errors(rounded(scaled), scaled, floors)
            likely = [one if one < np.inf else 0.0 for one in stored]
            lost = map(max, errors(alone, exact, least), likely)
            allowed = [max(_TOLERANCE, _BENEFIT * one) for one in lost]
            return allowed[:count] + [2 * one for one in allowed[count:]]

        near = enumerate(zip(scaled, [*self._places, *self._trained], strict=False))
        sizes_near = {i: largest_finite(one) for i, (one, place) in near if place != LOSS}
        past = {i: one for i, one in sizes_near.items() if one >= FLOAT16.overflow_threshold}
        # So far, only what no NaN tells of counts, such as the quotient of infinite norms.
        if name != LARGEST:
            self._note_neighbours(name, past)
        return _Baseline(name, values, exact, least, limits, arriving, not past)

    def _note_neighbours(self, name: str, past: Mapping[int, float]) -> None:
        """Notes the layers that would read, or get as gradients, numbers past the range."""
        count = len(self._places)
        for index, size in past.items():
            largest = f"{size:.1g}, infinite in float16, on {name}"
            if index < count:
                self.need.readers.setdefault(self._places[index], f"which reach {largest}")
            elif self._dtypes[place := self._trained[index - count]] != "float32":
                reason = f"gets gradients up to {largest}"
                self.need.parts.setdefault(self.piece.sources[place], reason)

    # --- runs ---

    def _exact(self, values: Sequence[Array], arriving: float = 1.0) -> Outcome:
        return self._replay(["float32"] * len(values), True, True)(values, arriving)

    def _in_16_bits(self, parts: frozenset[int]) -> Replay:
        """In 16 bits but for some parts."""
        pairs = zip(self._dtypes, self.piece.sources, strict=True)
        dtypes = ["float32" if source in parts else dtype for dtype, source in pairs]
        return self._replay(dtypes, OWN in parts, False)

    def _replay(self, dtypes: list[str], own: bool, inner: bool) -> Replay:
        self._set_policies(own, inner)
        key = (own, inner, *dtypes)
        if key not in self._replays:
            self._replays[key] = Replay(self.piece, dtypes, self._made)
        return self._replays[key]

    def _made(self, outcome: Outcome) -> list[Tensor]:
        """Its results without those that it only passes on, in float32: casts hide them."""
        passed = self.piece.passed
        return [one for index, one in enumerate(outcome.made) if index not in passed]

    def _rounded(self, values: list[Array]) -> list[Array]:
        pairs = zip(values, rounded(values), self._dtypes, strict=True)
        return [value if dtype == "float32" else narrow for value, narrow, dtype in pairs]

    def _numbers(self, run: Outcome) -> list[Array]:
        """Results, and the gradients of inputs, but for those of the model, and of weights."""
        weights = zip(run.slopes[len(self._values) :], self.piece.weights, strict=True)
        trained = [one for one, weight in weights if weight.trainable]
        return [*run.results, *(run.slopes[index] for index in self._trained), *trained]

    def _least(self, exact: Outcome) -> list[float]:
        """Sizes of results, and of gradients that matter: part of a straight line's slope.

        All results add to that of a weight, which is 1 at most. What is added to the loss has to be
        finite alone: its gradients move the weights.
        """
        places = zip(exact.results, self._places, strict=True)
        results = [np.inf if place == LOSS else deviation(one) for one, place in places]
        steep = max((one for one in results if one < np.inf), default=0.0) * _TOLERANCE
        slopes = [steep / (deviation(self._values[index]) or 1.0) for index in self._trained]
        count = sum(one.size for one in exact.results)
        added = [count / np.prod(one.shape) for one in self.piece.weights if one.trainable]
        return [*results, *slopes, *(np.sqrt(added) * min(steep, _TOLERANCE))]


def _state(index: int, outcome: Outcome) -> list[Tensor]:
    return [outcome.states[index]]


def _remedy(found: FirstOp, on: _Baseline) -> str:
    """The change of the user's code that lets it compute in 16 bits; "" if none is known."""
    if found.masks:
        return "; computes in 16 bits with the constant chosen, ops.where(mask, -3e4, x)"
    if on.fits:
        return "; computes in 16 bits with ops.cast(x, 'float32') before it and a cast back"
    return ""


def _arriving(slopes: list[Array]) -> float:
    """The size of arriving gradients at which a dynamic loss scale settles."""
    largest = _largest([one for one in slopes if np.isfinite(one).all()])
    wanted = _LARGEST_GRADIENT / largest if largest > 0 else 1.0
    return float(np.clip(2.0 ** np.floor(np.log2(wanted)), *_ARRIVING))


def _alike(one: Array, other: Array) -> bool:
    """Whether slopes are the same: float32 is linear to seven digits, and sums lose a few."""
    finite = np.isfinite(one) & np.isfinite(other)
    one, other = one[finite], other[finite]
    return bool(np.linalg.norm(one - other) <= _OFF * np.linalg.norm(other))


def _largest(arrays: list[Array]) -> float:
    return max((float(np.abs(one).max(initial=0)) for one in arrays), default=0.0)


def _loss(error: float, of: str, name: str) -> str:
    if error == np.inf:
        return f"is infinite or NaN in float16 on {name}"
    share = f"{error:.0%}" if error < 1 else "all"
    return f"loses {share} of its {of} in float16 on {name}"

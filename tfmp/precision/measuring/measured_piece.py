"""What a piece of code needs so that FP16 does it no harm: it runs in both precisions."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import keras
import numpy as np
from keras import ops

from tfmp.precision.measuring.alterations import FAR, FLAT, LARGEST, SMALL, Given, altered
from tfmp.precision.measuring.errors import Array, deviation, errors, rounded
from tfmp.precision.measuring.facts import FAILED_DRY_RUN
from tfmp.precision.measuring.first_op import FirstOp, first_nonfinite_op
from tfmp.precision.measuring.pieces import Outcome, Piece
from tfmp.precision.measuring.replays import Replay, replay, trace
from tfmp.precision.measuring.user_lines import failure
from tfmp.shared.backend import Tensor

# In standard deviations: an error that training feels, and by how much float32 must be better.
_TOLERANCE, _BENEFIT = 0.05, 4.0

# Sizes of gradients that arrive, as dynamic loss scales make them; they keep all below the limit.
ARRIVING = 2.0**-8, 2.0**8
_LARGEST_GRADIENT = 2.0**12

# So much lower the search for a loss scale goes at once.
_BACKOFF = 16.0

# Random numbers of a piece's own move its results by so much.
_RANDOM = 1e-3

OWN = -1  # a piece's own code among the indices of the calls that it makes


@dataclass
class Need:
    """The parts around a piece of code that have to be float32, with the reasons.

    Attributes:
        parts: the piece itself (`OWN`) and the layers that it calls, by index of the call.
        arguments: why the layers before it have to be; "" if they need not.
        readers: the calls that get numbers past the range; None for the readers of its result.
        steep: whether gradients leave the range in rows of zeros.
        bounded: whether its result stays where it was as its arguments grow.
        dtypes: those of its result.
        lookups: whether lookups that it calls are in 16 bits, too.
        promoted: the line that makes float32 of 16 bits before it multiplies; None without one.
    """

    parts: dict[int, str] = field(default_factory=dict)
    arguments: str = ""
    readers: dict[int | None, str] = field(default_factory=dict)
    steep: bool = False
    bounded: bool = False
    dtypes: list[str] = field(default_factory=list)
    lookups: bool = False
    promoted: str | None = None


@dataclass(frozen=True)
class Setting:
    """How a piece is to compute.

    Attributes:
        given: the numbers for its inputs.
        dtypes: those in which it gets them under the plan.
        lookups: which of them a lookup makes that may be in 16 bits, too.
        own: whether its own layers are float32 already.
        dtype: the dtype of 16 bits.
        set_policies: makes its own layers, and those that it calls, float32 or as planned.
    """

    given: Sequence[Given]
    dtypes: list[str]
    lookups: list[bool]
    own: bool
    dtype: str
    set_policies: Callable[[bool, bool], None]


@dataclass(frozen=True)
class _Baseline:
    """What float32 computes from one choice of numbers: results, and then gradients.

    Attributes:
        name: the choice.
        values: the numbers.
        exact: what float32 computes.
        least: standard deviations that count at least.
        limits: errors that 16 bits may have.
        arriving: the size of gradients at which a dynamic loss scale settles.
        fits: whether FP16 holds the results and the gradients of the inputs.
    """

    name: str
    values: list[Array]
    exact: list[Array]
    least: list[float]
    limits: list[float]
    arriving: float
    fits: bool


class Measurement:
    """Runs one piece in both precisions.

    Attributes:
        need: what has been found.
    """

    def __init__(self, piece: Piece, setting: Setting) -> None:
        self.piece, self.setting, self.need = piece, setting, Need()
        self._values = [one.values for one in setting.given]
        self._trained = [i for i, one in enumerate(setting.given) if not one.is_raw]
        self._dtypes = setting.dtypes
        self._first = self._exact(self._values)
        self._passed = self._first.outcome.passed
        self._first = self._exact(self._values)
        self._places = [
            p for i, p in enumerate(self._first.outcome.places) if i not in self._passed
        ]
        self._is_random = False
        self._traces = self._can_be_traced()
        self._floor = self._least(self._first)

    def run(self, adds_float32: bool) -> None:
        """Finds the parts without which the piece does not run in 16 bits.

        Args:
            adds_float32: whether what it adds to the loss has to be float32.
        """
        if any(self.setting.lookups) and self._fails(self._parts()):
            self._let_lookups_follow()
        self._widen(self._fails)
        added = {_dtype(one) for one in self._first.outcome.losses}
        if adds_float32 and added == {"float32"}:  # others were cast by the code
            self._widen(self._adds_16_bits)
        outcome = self._run_once(self._parts())
        made = zip(outcome.made, outcome.places, strict=True)
        self.need.dtypes = [_dtype(one) for one, place in made if place is None]

    def measure(self) -> None:
        """Finds the parts that FP16 harms, on the numbers as they are and on altered ones."""
        if not self._first.results:
            return
        others = self._exact(self._values, other_seeds=True)
        moved = errors(others.results, self._first.results, self._floor[: len(others.results)])
        self._is_random = max(moved) > _RANDOM
        for name, values in altered(self.setting.given):
            baseline = self._baseline(name, values)
            self._widen(partial(self._harm, on=baseline), baseline)
            if name == LARGEST:
                now, first = (_largest(one) for one in (baseline.exact, self._first.results))
                self.need.bounded = now <= 2 * first

    def run_narrow(self) -> Outcome:
        """Runs the piece in 16 bits, but for the parts that have to be float32."""
        return self._mixed(self._values, self._parts(), 1.0).outcome

    def _let_lookups_follow(self) -> None:
        """Takes lookups in 16 bits if the piece runs with them so."""
        before, dtype = self._dtypes, self.setting.dtype
        pairs = zip(before, self.setting.lookups, strict=True)
        self._dtypes = [dtype if is_lookup else one for one, is_lookup in pairs]
        self.need.lookups = not self._fails(self._parts())
        if not self.need.lookups:
            self._dtypes = before

    def _parts(self) -> frozenset[int]:
        return frozenset(self.need.parts.keys() | ({OWN} if self.setting.own else set()))

    def _widen(self, problem: "_Problem", on: _Baseline | None = None) -> None:
        """Makes parts float32, the one called last first, until there is no problem.

        Those that it does without are taken out again.

        Args:
            problem: tells of one.
            on: the numbers that show it, if it is not that the piece fails.
        """
        parts, reason, added = self._parts(), "", []
        pairs = zip(self.piece.sources, self._dtypes, strict=True)
        calls = sorted({s for s, dtype in pairs if dtype != "float32" and s is not None})
        while (told := problem(parts)) is not None:
            reason = reason or told[0] + self._first_op(on, parts)
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

    def _run_once(self, parts: frozenset[int]) -> Outcome:
        """Traces the piece in 16 bits but for some parts; runs it if it needs numbers to run."""
        self.setting.set_policies(OWN in parts, False)
        if not self._traces:
            return self._mixed(self._values, parts, 1.0).outcome
        shapes = [one.shape for one in self._values]
        return trace(self.piece, shapes, self._dtypes_of(parts))

    def _can_be_traced(self) -> bool:
        self.setting.set_policies(True, True)
        with suppress(Exception):
            trace(self.piece, [one.shape for one in self._values], ["float32"] * len(self._values))
            return True
        return False

    def _fails(self, parts: frozenset[int]) -> tuple[str, int] | None:
        try:
            self._run_once(parts)
        except Exception as error:
            return self._failure(error)
        return None

    def _failure(self, error: Exception) -> tuple[str, int]:
        reason = f"{FAILED_DRY_RUN} in {self.setting.dtype}: {failure(error)}"
        return reason, max(self.piece.answered, default=-1) + 1

    def _adds_16_bits(self, parts: frozenset[int]) -> tuple[str, int] | None:
        """A sum over a whole batch does not fit in FP16, and it goes into the loss."""
        with suppress(Exception):  # some of the parts alone make dtypes that do not meet
            losses = self._run_once(parts).losses
            if all(_dtype(one) == "float32" for one in losses):
                return None
        return f"adds to the loss in {self.setting.dtype}", len(self.piece.call.inner)

    def _harm(self, parts: frozenset[int], on: _Baseline) -> tuple[str, int] | None:
        end, count = len(self.piece.call.inner), len(self._places)
        try:
            found = self._settled(on, parts)
        except Exception as raised:  # some of the parts alone make dtypes that do not meet
            return self._failure(raised)
        lost = errors(self._numbers(found), on.exact, on.least)
        places = [end if p is None else p for p in self._places] + [end] * (len(lost) - count)
        for place, index in sorted((place, index) for index, place in enumerate(places)):
            error, is_infinite = lost[index], lost[index] == np.inf
            counts = on.name not in FAR if is_infinite else not self._is_random
            if counts and error > on.limits[index]:
                of = "standard deviation" if index < count else "gradients"
                return _loss(error, of, on.name), place
        return None

    def _first_op(self, on: _Baseline | None, parts: frozenset[int]) -> str:
        """The first operation that makes infinity or NaN, its place and the remedy, as an end."""
        if on is None:
            return ""
        values = [ops.convert_to_tensor(value) for value in on.values]
        weights = [ops.convert_to_tensor(one.value) for one in self.piece.weights]

        def run(*given: Tensor) -> list[Tensor]:
            pairs = zip(given, self._dtypes_of(parts), strict=True)
            narrow = [ops.cast(value, dtype) for value, dtype in pairs]
            return self.piece.run(narrow, weights).made

        self.setting.set_policies(OWN in parts, False)
        with np.errstate(over="ignore"), suppress(Exception):  # it may need a graph around it
            found = first_nonfinite_op(run, *values)
            if found and found.where:
                return f": {found.name} at {found.where}{_remedy(found, on)}"
        return ""

    def _settled(self, on: _Baseline, parts: frozenset[int]) -> Replay:
        """In 16 bits, where the loss scale has settled: gradients that are not finite lower it."""
        arriving = on.arriving
        while True:
            found = self._mixed(on.values, parts, arriving)
            if arriving <= ARRIVING[0] or all(np.isfinite(one).all() for one in found.slopes):
                return found
            arriving = max(arriving / _BACKOFF, ARRIVING[0])

    def _baseline(self, name: str, values: list[Array]) -> _Baseline:
        """Computes in float32, and notes what float32 of this piece alone would not mend."""
        first = self._exact(values)
        exact, count = self._numbers(first), len(self._places)
        share = 1.0 if name in FLAT else 1 / 64 if name == SMALL else 0.0
        slopes = (self._floor if name in FLAT else self._least(first))[count:]
        least = [share * one for one in self._floor[:count]] + slopes
        arriving = _arriving(exact[count:])
        alone = self._numbers(self._exact(self._rounded(values), arriving))
        sizes = [1.0] * count + [arriving] * (len(exact) - count)
        scaled = [one * size for one, size in zip(exact, sizes, strict=True)]
        floors = [one * size for one, size in zip(least, sizes, strict=True)]
        stored = errors(rounded(scaled), scaled, floors)
        if name not in FAR:
            self._note_neighbours(name, stored, scaled)
        limits = [
            (1 if index < count else 2) * _limit(a, b)
            for index, (a, b) in enumerate(zip(errors(alone, exact, least), stored, strict=True))
        ]
        fits = all(size < np.inf for size in stored[: count + len(self._trained)])
        return _Baseline(name, values, exact, least, limits, arriving, fits)

    def _note_neighbours(self, name: str, stored: list[float], scaled: list[Array]) -> None:
        """Notes the layers that would read, or get as gradients, numbers past the range."""
        count = len(self._places)
        for index, size in enumerate(stored[: count + len(self._trained)]):
            if size < np.inf:
                continue
            largest = f"{np.abs(scaled[index]).max():.1g}, infinite in float16, on {name}"
            if index < count:
                self.need.readers.setdefault(self._places[index], f"which reach {largest}")
            elif self._dtypes[place := self._trained[index - count]] != "float32":
                source = self.piece.sources[place]
                self.need.steep |= name in FLAT
                reason = f"gets gradients up to {largest}"
                if source is None:
                    self.need.arguments = self.need.arguments or reason
                else:
                    self.need.parts.setdefault(source, reason)

    def _exact(
        self, values: Sequence[Array], arriving: float = 1.0, other_seeds: bool = False
    ) -> Replay:
        self.setting.set_policies(True, True)
        dtypes = ["float32"] * len(values)
        return replay(self.piece, values, dtypes, self._made, arriving, other_seeds)

    def _mixed(self, values: Sequence[Array], parts: frozenset[int], arriving: float) -> Replay:
        self.setting.set_policies(OWN in parts, False)
        return replay(self.piece, values, self._dtypes_of(parts), self._made, arriving)

    def _dtypes_of(self, parts: frozenset[int]) -> list[str]:
        pairs = zip(self._dtypes, self.piece.sources, strict=True)
        return ["float32" if source in parts else dtype for dtype, source in pairs]

    def _made(self, outcome: Outcome) -> list[keras.KerasTensor]:
        passed = getattr(self, "_passed", ())
        return [one for index, one in enumerate(outcome.made) if index not in passed]

    def _rounded(self, values: list[Array]) -> list[Array]:
        pairs = zip(values, rounded(values), self._dtypes, strict=True)
        return [value if dtype == "float32" else narrow for value, narrow, dtype in pairs]

    def _numbers(self, run: Replay) -> list[Array]:
        """Results, and the gradients that training uses: of inputs and of trainable weights.

        An input of the model has none.
        """
        weights = zip(run.slopes[len(self._values) :], self.piece.weights, strict=True)
        trained = [one for one, weight in weights if weight.trainable]
        return [*run.results, *(run.slopes[index] for index in self._trained), *trained]

    def _least(self, exact: Replay) -> list[float]:
        """Sizes of results, and of gradients that matter: part of a straight line's slope."""
        results = [deviation(one) for one in exact.results]
        steep = max(results, default=0.0) * _TOLERANCE
        slopes = [steep / (deviation(self._values[index]) or 1.0) for index in self._trained]
        return results + slopes + [0.0] * (len(self._numbers(exact)) - len(results + slopes))


# Gets parts in float32; tells of a problem, and of the number of calls that were made before it.
_Problem = Callable[[frozenset[int]], tuple[str, int] | None]


def _remedy(found: FirstOp, on: _Baseline) -> str:
    """The change of the user's code that lets it compute in 16 bits; "" if none is known."""
    if found.masks:
        return "; computes in 16 bits with the constant chosen, ops.where(mask, -3e4, x)"
    if on.fits:
        return "; computes in 16 bits with ops.cast(x, 'float32') before it and a cast back"
    return ""


def _limit(lost: float, stored: float) -> float:
    return max(_TOLERANCE, _BENEFIT * max(lost, stored if stored < np.inf else 0.0))


def _arriving(slopes: list[Array]) -> float:
    """The size of arriving gradients at which a dynamic loss scale settles."""
    largest = _largest([one for one in slopes if np.isfinite(one).all()])
    wanted = _LARGEST_GRADIENT / largest if largest > 0 else 1.0
    return float(np.clip(2.0 ** np.floor(np.log2(wanted)), *ARRIVING))


def _largest(arrays: list[Array]) -> float:
    return max((float(np.abs(one).max(initial=0)) for one in arrays), default=0.0)


def _loss(error: float, of: str, name: str) -> str:
    if error == np.inf:
        return f"is infinite or NaN in float16 on {name}"
    share = f"{error:.0%}" if error < 1 else "all"
    return f"loses {share} of its {of} in float16 on {name}"


def _dtype(tensor: keras.KerasTensor) -> str:
    return keras.backend.standardize_dtype(tensor.dtype)

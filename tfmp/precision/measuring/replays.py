"""Runs a piece of code on given numbers, forwards and backwards on any backend."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from keras import ops

from tfmp.precision.measuring.pieces import Outcome, Piece
from tfmp.shared.backend import Tensor, current_backend

# Takes an outcome; gives the tensors to differentiate.
Chosen = Callable[[Outcome], Sequence[Tensor]]


@dataclass(frozen=True)
class Replay:
    """A piece that ran again.

    Attributes:
        results: what its own code made, in float32.
        slopes: the gradients of its inputs and then of its weights, divided by what arrived.
        outcome: the tensors; on JAX they may be used for their dtypes only.
    """

    results: list[np.ndarray]
    slopes: list[np.ndarray]
    outcome: Outcome


def replay(
    piece: Piece,
    values: Sequence[np.ndarray],
    dtypes: Sequence[str],
    chosen: Chosen,
    arriving: float = 1.0,
    other_seeds: bool = False,
) -> Replay:
    """Runs a piece; gradients of a fixed random direction arrive at the chosen results.

    Args:
        piece: it runs under the policies that its layers have.
        values: numbers for its inputs.
        dtypes: the dtypes in which these arrive.
        chosen: the results that count.
        arriving: size of the gradients.
        other_seeds: whether its random numbers are others than usual.
    """
    count = len(values)
    sources = [
        *(ops.cast(ops.convert_to_tensor(v), d) for v, d in zip(values, dtypes, strict=True)),
        *(ops.convert_to_tensor(one.value) for one in piece.weights),
    ]
    outcomes: list[Outcome] = []

    def function(tensors: list[Tensor]) -> list[Tensor]:
        outcomes.append(piece.run(tensors[:count], tensors[count:], other_seeds))
        return list(chosen(outcomes[-1]))

    with np.errstate(over="ignore"):
        results, slopes = _run(function, sources, arriving)
    return Replay(_arrays(results), [one / arriving for one in _arrays(slopes)], outcomes[0])


def trace(piece: Piece, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[str]) -> Outcome:
    """Traces a piece as `fit` does, which computes nothing: graphs lack some 16-bit kernels.

    Args:
        piece: it runs under the policies that its layers have.
        shapes, dtypes: those of its inputs.
    """
    outcomes: list[Outcome] = []

    def function(*tensors: Tensor) -> list[Tensor]:
        weights = [ops.convert_to_tensor(one.value) for one in piece.weights]
        outcomes.append(piece.run(tensors, weights))
        return []  # no tensor leaves the loop that it was made in

    pairs = list(zip(shapes, dtypes, strict=True))
    with np.errstate(over="ignore"):  # constants past 65504 are no failures
        current_backend().trace(function, pairs)
    return outcomes[0]


def slopes_of(function: "_Function", sources: list[Tensor], arriving: float) -> list[np.ndarray]:
    """The gradients of tensors where those of a fixed random direction arrive at the results."""
    return _arrays(_run(function, sources, arriving)[1])


_Function = Callable[[list[Tensor]], list[Tensor]]


def _run(
    function: _Function, sources: list[Tensor], arriving: float
) -> tuple[list[Tensor], list[Tensor]]:
    def arrive(results: list[Tensor]) -> list[Tensor]:
        pairs = zip(results, directions([one.shape for one in results]), strict=True)
        return [ops.cast(values * arriving, one.dtype) for one, values in pairs]

    return current_backend().pulled_back(function, sources, arrive)


def directions(shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """The fixed random directions of gradients that arrive at results."""
    draw = np.random.default_rng(0)
    return [draw.standard_normal(shape) for shape in shapes]


def _arrays(values: Sequence[Tensor]) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        return [np.asarray(ops.convert_to_numpy(value), "float32") for value in values]

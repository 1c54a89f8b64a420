"""The state of a loss-scale optimizer, and its transitions as pure functions of tensors.

    step                  scale                    streak    strikes   counted
    applied               as it is                 + 1       as is     nothing
    applied, and moves    strategy.after_finite    and strikes, too    growths or backoffs
    skipped               strategy.after_skip      0         + 1       skips, their run, offenders

The counters are one integer vector, so that they cost next to nothing: a step that is applied does
not touch them. Under XLA every variable that any branch writes is an output of every step.
"""

from typing import NamedTuple

import numpy as np
from keras import ops

from tfmp.loss_scaling.strategies import LossScale, ScaleState
from tfmp.shared.backend import Tensor


class Counters(NamedTuple):
    """The counters, as integer tensors or arrays. They count from the creation of the optimizer.

    Attributes:
        strikes: skipped steps since the scale last grew.
        skipped_steps: steps whose gradients were not finite.
        skip_run: length of the latest run of skipped steps.
        skip_run_at: the inner optimizer's iterations when that run was recorded: if they have
            moved on since, the run is over.
        growths: number of times that the scale rose.
        backoffs: number of times that the scale fell.
        nonfinite_counts: per trainable variable, the steps in which its gradient was not finite.
        first_offender_counts: per trainable variable, the steps in which its gradient was the
            first that was not finite in the order of backpropagation: the nearest to the loss.
    """

    strikes: Tensor
    skipped_steps: Tensor
    skip_run: Tensor
    skip_run_at: Tensor
    growths: Tensor
    backoffs: Tensor
    nonfinite_counts: Tensor
    first_offender_counts: Tensor

    def consecutive_skips(self, iterations: Tensor) -> Tensor:
        """Skipped steps since the last applied one, given the inner optimizer's iterations."""
        return ops.where(self.skip_run_at == iterations, self.skip_run, 0)


_VECTORS = 2
_SCALARS = len(Counters._fields) - _VECTORS


def packed_size(variables: int) -> int:
    """Length of the vector of counters for this many trainable variables."""
    return _SCALARS + _VECTORS * variables


def unpack(vector: Tensor) -> Counters:
    """The counters in a vector: backend tensor or NumPy array, of static length."""
    variables = (int(vector.shape[0]) - _SCALARS) // _VECTORS
    if isinstance(vector, np.ndarray):
        return Counters(*vector[:_SCALARS], *vector[_SCALARS:].reshape(_VECTORS, variables))
    # A slice for each would be most of what there is to trace.
    scalars = ops.unstack(vector[:_SCALARS], _SCALARS)
    return Counters(*scalars, *ops.unstack(ops.reshape(vector[_SCALARS:], (_VECTORS, variables))))


class Snapshot(NamedTuple):
    """Values of the variables that a step reads before it changes one of them.

    Attributes:
        scale: float32 scalar, the loss scale of this step.
        streak: integer scalar, finite steps since the last growth or skip.
        counters: integer vector, see `Counters`.
        iterations: integer scalar, the number of steps that the inner optimizer has applied.
    """

    scale: Tensor
    streak: Tensor
    counters: Tensor
    iterations: Tensor

    def state(self) -> ScaleState:
        """The state for the strategy, with this step among its steps."""
        counters = unpack(self.counters)
        steps = self.iterations + counters.skipped_steps + 1
        return ScaleState(self.scale, self.streak, counters.strikes, steps)


# The next values of the first three fields of a snapshot.
Transition = tuple[Tensor, Tensor, Tensor]


def moves_after_finite(strategy: LossScale, now: Snapshot) -> Tensor | bool:
    """Whether the scale moves if the step is applied; False if it never does."""
    state = now.state()
    return strategy.moves_after_finite(state._replace(streak=state.streak + 1))


def after_finite(strategy: LossScale, now: Snapshot) -> Transition:
    """The values after a step that is applied."""
    state = now.state()
    state = state._replace(streak=state.streak + 1)
    moves = strategy.moves_after_finite(state)
    if moves is False:
        return now.scale, state.streak, now.counters
    moved = [
        ops.where(moves, ops.cast(after, before.dtype), before)
        for after, before in zip(strategy.after_finite(state), state, strict=True)
    ]
    return _moved(now, ScaleState(*moved), unpack(now.counters))


def after_skip(strategy: LossScale, now: Snapshot, finite: Tensor) -> Transition:
    """The values after a step that is skipped.

    Args:
        strategy: decides how the scale moves.
        now: the snapshot before the step.
        finite: boolean vector over the trainable variables.
    """
    counters, state = unpack(now.counters), now.state()
    state = state._replace(streak=ops.zeros_like(now.streak), strikes=state.strikes + 1)
    guilty = ops.cast(ops.logical_not(finite), now.counters.dtype)
    # Backpropagation runs from the last variable to the first.
    first = ops.max(guilty * ops.arange(ops.size(guilty), dtype=guilty.dtype))
    first = ops.one_hot(first, guilty.shape[0], dtype=guilty.dtype)
    run = counters.consecutive_skips(now.iterations) + 1
    counters = counters._replace(
        skipped_steps=counters.skipped_steps + 1,
        skip_run=run,
        skip_run_at=now.iterations,
        nonfinite_counts=counters.nonfinite_counts + guilty,
        first_offender_counts=counters.first_offender_counts + first,
    )
    return _moved(now, strategy.after_skip(state), counters)


def _moved(now: Snapshot, after: ScaleState, counters: Counters) -> Transition:
    dtype = now.counters.dtype
    counters = counters._replace(
        strikes=after.strikes,
        growths=counters.growths + ops.cast(after.scale > now.scale, dtype),
        backoffs=counters.backoffs + ops.cast(after.scale < now.scale, dtype),
    )
    scalars = ops.stack([ops.cast(value, dtype) for value in counters[:_SCALARS]])
    vectors = [ops.cast(value, dtype) for value in counters[_SCALARS:]]
    return (
        ops.cast(after.scale, now.scale.dtype),
        ops.cast(after.streak, now.streak.dtype),
        ops.concatenate([scalars, *vectors]),
    )

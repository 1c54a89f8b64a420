"""The effect of a step on the loss scale and the counters, as pure functions of tensors."""

from typing import NamedTuple

from keras import ops

from tfmp.loss_scaling import counters as counting
from tfmp.loss_scaling.counters import Counters
from tfmp.loss_scaling.strategies import LossScale, ScaleState
from tfmp.shared.backend import Tensor


class Snapshot(NamedTuple):
    """Values of the variables that a step reads before it changes one of them.

    Attributes:
        scale: float32 scalar, the loss scale of this step.
        streak: integer scalar, finite steps since the last growth or skip.
        counters: integer vector, see `tfmp.loss_scaling.counters`.
        iterations: integer scalar, the number of steps that the inner optimizer has applied.
    """

    scale: Tensor
    streak: Tensor
    counters: Tensor
    iterations: Tensor


# The next values of the first three fields of a snapshot.
Transition = tuple[Tensor, Tensor, Tensor]


def moves_after_finite(strategy: LossScale, now: Snapshot) -> Tensor | bool:
    """Whether the scale moves if the step is applied; False if it never does.

    Args:
        strategy: decides how the scale moves.
        now: the snapshot before the step.
    """
    return strategy.moves_after_finite(_counted_finite(now)[0])


def after_finite(strategy: LossScale, now: Snapshot) -> Transition:
    """The values after a step that is applied.

    Args:
        strategy: decides how the scale moves.
        now: the snapshot before the step.
    """
    state, counters = _counted_finite(now)
    moves = strategy.moves_after_finite(state)
    if moves is False:
        return now.scale, state.streak, now.counters
    moved = [
        ops.where(moves, ops.cast(after, before.dtype), before)
        for after, before in zip(strategy.after_finite(state), state, strict=True)
    ]
    return _moved(now, state, ScaleState(*moved), counters)


def after_skip(strategy: LossScale, now: Snapshot, finite: Tensor) -> Transition:
    """The values after a step that is skipped.

    Args:
        strategy: decides how the scale moves.
        now: the snapshot before the step.
        finite: boolean vector over the trainable variables.
    """
    state, counters = _counted(now)
    state = state._replace(streak=ops.zeros_like(now.streak), strikes=state.strikes + 1)
    counters = counting.after_skip(counters, finite, now.iterations)
    return _moved(now, state, strategy.after_skip(state), counters)


def _counted(now: Snapshot) -> tuple[ScaleState, Counters]:
    counters = counting.unpack(now.counters)
    steps = now.iterations + counters.skipped_steps + 1
    return ScaleState(now.scale, now.streak, counters.strikes, steps), counters


def _counted_finite(now: Snapshot) -> tuple[ScaleState, Counters]:
    state, counters = _counted(now)
    return state._replace(streak=now.streak + 1), counters


def _moved(now: Snapshot, before: ScaleState, after: ScaleState, counters: Counters) -> Transition:
    counters = counting.after_scale_move(counters, before.scale, after.scale, after.strikes)
    return (
        ops.cast(after.scale, now.scale.dtype),
        ops.cast(after.streak, now.streak.dtype),
        counting.pack(counters, now.counters.dtype),
    )

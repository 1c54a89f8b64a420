"""The loss-scale optimizer's counters: one integer vector, so that they cost next to nothing.

A step that is applied does not touch them. Under XLA every variable that any branch writes is an
output of every step, and one vector is one output.
"""

from typing import NamedTuple

from keras import ops

from tfmp.shared.backend import Tensor


class Counters(NamedTuple):
    """The counters, as integer tensors or arrays. They count from the creation of the optimizer.

    Attributes:
        strikes: skipped steps since the scale last grew.
        skipped_steps: steps whose gradients were not finite.
        skip_run: length of the latest run of skipped steps.
        skip_run_at: the inner optimizer's iterations when that run was recorded: if they have
            moved on since, the run is over.
        longest_skip_run: length of the longest run.
        growths: number of times that the scale rose.
        backoffs: number of times that the scale fell.
        nonfinite_counts: per trainable variable, the steps in which its gradient was not finite.
        first_offender_counts: per trainable variable, the steps in which its gradient was the
            first that was not finite in the order of backpropagation: the nearest to the loss.
        last_nonfinite: per trainable variable, 1 if its gradient was not finite in the latest
            skipped step.
    """

    strikes: Tensor
    skipped_steps: Tensor
    skip_run: Tensor
    skip_run_at: Tensor
    longest_skip_run: Tensor
    growths: Tensor
    backoffs: Tensor
    nonfinite_counts: Tensor
    first_offender_counts: Tensor
    last_nonfinite: Tensor

    def consecutive_skips(self, iterations: Tensor) -> Tensor:
        """Skipped steps since the last applied one, given the inner optimizer's iterations."""
        return ops.where(self.skip_run_at == iterations, self.skip_run, 0)


_VECTORS = 3
_SCALARS = len(Counters._fields) - _VECTORS


def packed_size(variables: int) -> int:
    """Length of the vector for this many trainable variables."""
    return _SCALARS + _VECTORS * variables


def unpack(vector: Tensor) -> Counters:
    """The counters in a packed vector: backend tensor or NumPy array, of static length."""
    variables = (int(vector.shape[0]) - _SCALARS) // _VECTORS
    starts = [_SCALARS + index * variables for index in range(_VECTORS)]
    return Counters(
        *(vector[index] for index in range(_SCALARS)),
        *(vector[start : start + variables] for start in starts),
    )


def pack(counters: Counters, dtype: str) -> Tensor:
    """Inverse of `unpack`, as one backend tensor."""
    scalars = ops.stack([ops.cast(value, dtype) for value in counters[:_SCALARS]])
    vectors = [ops.cast(value, dtype) for value in counters[_SCALARS:]]
    return ops.concatenate([scalars, *vectors])


def after_skip(counters: Counters, finite: Tensor, iterations: Tensor) -> Counters:
    """The counters after a skipped step.

    Args:
        counters: the counters before the step.
        finite: boolean vector over the trainable variables.
        iterations: the inner optimizer's iterations, which a skipped step does not change.
    """
    guilty = ops.cast(ops.logical_not(finite), counters.nonfinite_counts.dtype)
    # Backpropagation runs from the last variable to the first.
    first = ops.max(guilty * ops.arange(ops.size(guilty), dtype=guilty.dtype))
    run = counters.consecutive_skips(iterations) + 1
    return counters._replace(
        skipped_steps=counters.skipped_steps + 1,
        skip_run=run,
        skip_run_at=iterations,
        longest_skip_run=ops.maximum(counters.longest_skip_run, run),
        nonfinite_counts=counters.nonfinite_counts + guilty,
        first_offender_counts=counters.first_offender_counts
        + ops.one_hot(first, guilty.shape[0], dtype=guilty.dtype),
        last_nonfinite=guilty,
    )


def after_scale_move(
    counters: Counters, before: Tensor, after: Tensor, strikes: Tensor
) -> Counters:
    """The counters after the scale went from `before` to `after`, which may be equal."""
    return counters._replace(
        strikes=strikes,
        growths=counters.growths + ops.cast(after > before, counters.growths.dtype),
        backoffs=counters.backoffs + ops.cast(after < before, counters.backoffs.dtype),
    )

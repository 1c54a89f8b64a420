"""FusedStep: the steps of several jobs as one compiled function, undone exactly where it fails."""

from collections.abc import Callable, Sequence
from typing import Any

import keras

from tfmp.colocation.training import Training


class FusedStep:
    """Takes a step of every training in one call of one compiled function.

    Each job's own compiled step is called inside, so that it computes what it computes alone. When
    the call fails, nobody knows whose part failed and which updates were made already: all jobs go
    back to where they were, and take the step one at a time. The one that fails again is to blame.
    For that every step starts from values that are kept until it has succeeded: as much memory as
    weights and optimizer state a second time.

    Args:
        trainings: all set up, none done.
    """

    def __init__(self, trainings: Sequence[Training]) -> None:
        self._trainings = list(trainings)
        make = _on_jax if keras.backend.backend() == "jax" else _on_tensorflow
        self._save, self._step = make(self._trainings)
        self._fits = True

    def __call__(self, batches: Sequence[Any]) -> list[Any]:
        """One step each; returns the logs, or the error of a training in its place."""
        if not self._fits:
            return self._one_by_one(batches)
        saved = self._save()
        try:
            return list(self._step(batches))
        except Exception:
            for training, values in zip(self._trainings, saved, strict=True):
                training.restore(values)
            outcomes = self._one_by_one(batches)
            # If nobody fails alone, it was the whole that failed: it needs the most memory.
            self._fits = any(isinstance(outcome, Exception) for outcome in outcomes)
            return outcomes

    def _one_by_one(self, batches: Sequence[Any]) -> list[Any]:
        outcomes: list[Any] = []
        for training, batch in zip(self._trainings, batches, strict=True):
            try:
                with training.own_state():
                    outcomes.append(training.compute(batch))
            except Exception as error:
                outcomes.append(error)
        return outcomes


def _on_tensorflow(trainings: list[Training]) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    import tensorflow as tf

    def step(batches: Sequence[Any]) -> list[Any]:
        logs = []
        for training, batch in zip(trainings, batches, strict=True):
            with training.own_state():
                logs.append(training.compute(batch))
        return logs

    def save() -> list[Any]:
        # No copies: an update of a variable that is still read makes one.
        return [training.values() for training in trainings]

    return (
        tf.function(save, autograph=False),
        tf.function(step, autograph=False, reduce_retracing=True),
    )


def _on_jax(trainings: list[Training]) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    import jax

    steps = [training.model.train_function for training in trainings if training.model is not None]

    def pure(states: Any, batches: Any) -> list[Any]:
        results = []
        for training, step, state, batch in zip(trainings, steps, states, batches, strict=True):
            with training.own_state():
                results.append(step(state, iter([batch])))
        return results

    compiled = jax.jit(pure)  # donates nothing, so that the states before a failure stay

    def save() -> list[Any]:
        states = [training.jax_state() for training in trainings]
        for training, state in zip(trainings, states, strict=True):
            training.restore(state)
        return states

    def step(batches: Sequence[Any]) -> list[Any]:
        results = compiled([list(t.jax_state()) for t in trainings], list(batches))
        for training, (_, state) in zip(trainings, results, strict=True):
            training.restore(state)
        return [logs for logs, _ in results]

    return save, step

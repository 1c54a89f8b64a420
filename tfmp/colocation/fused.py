"""FusedStep: the steps of several jobs as one compiled function, undone exactly if it fails."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tfmp.colocation.training import Training
from tfmp.shared.backend import TensorTree, current_backend

# The logs of a training's step, or its error.
Outcome: TypeAlias = TensorTree | Exception

# Saves the values of all trainings; takes a step of each, given their batches.
SaveAndStep: TypeAlias = tuple[
    Callable[[], list[TensorTree]], Callable[[Sequence[TensorTree]], list[TensorTree]]
]


class FusedStep:
    """Takes a step of every training in one call of one compiled function.

    Each job's own compiled step is called inside, so that it computes the same as it does alone.
    When the call fails, it is not known which part failed and which updates were made already: all
    jobs go back to the state before the step, and take the step one at a time. The job that fails
    again is to blame. For this every step starts from values that are kept until it has succeeded:
    they need as much memory as weights and optimizer state a second time.

    Args:
        trainings: trainings that are set up and not done.
    """

    def __init__(self, trainings: Sequence[Training]) -> None:
        self._trainings = list(trainings)
        make = _stateless if current_backend().is_stateless else _in_place
        self._save, self._step = make(self._trainings)
        self._fits = True

    def __call__(self, batches: Sequence[TensorTree]) -> list[Outcome]:
        """Takes one step of each training; returns their logs, or errors in place of logs."""
        if not self._fits:
            return self._one_by_one(batches)
        saved = self._save()
        try:
            return list(self._step(batches))
        except Exception:
            for training, values in zip(self._trainings, saved, strict=True):
                training.restore(values)
            outcomes = self._one_by_one(batches)
            # If no job fails alone, the fused step failed as a whole: it needs the most memory.
            self._fits = any(isinstance(outcome, Exception) for outcome in outcomes)
            return outcomes

    def _one_by_one(self, batches: Sequence[TensorTree]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for training, batch in zip(self._trainings, batches, strict=True):
            try:
                with training.own_state():
                    outcomes.append(training.compute(batch))
            except Exception as error:
                outcomes.append(error)
        return outcomes


def _in_place(trainings: list[Training]) -> SaveAndStep:
    compiled = current_backend().compiled

    def steps_of(some: list[Training]) -> Callable[[Sequence[TensorTree]], list[TensorTree]]:
        def steps(batches: Sequence[TensorTree]) -> list[TensorTree]:
            logs = []
            for training, batch in zip(some, batches, strict=True):
                with training.own_state():
                    logs.append(training.compute(batch))
            return logs

        return steps

    # Each job's own step is an XLA program: called one by one, they would be as many launches.
    by_xla = [training for training in trainings if getattr(training.model, "jit_compile", False)]
    others = [training for training in trainings if training not in by_xla]
    program = compiled(steps_of(by_xla), jit=True)

    def step(batches: Sequence[TensorTree]) -> list[TensorTree]:
        given = dict(zip(trainings, batches, strict=True))
        logs = program([given[training] for training in by_xla]) if by_xla else []
        logs = [*logs, *steps_of(others)([given[training] for training in others])]
        found = dict(zip([*by_xla, *others], logs, strict=True))
        return [found[training] for training in trainings]

    def save() -> list[TensorTree]:
        # No copies: an update of a variable that is still read makes one.
        return [training.values() for training in trainings]

    return compiled(save, jit=False), compiled(step, jit=False)


def _stateless(trainings: list[Training]) -> SaveAndStep:
    steps = [training.model.train_function for training in trainings if training.model is not None]

    def pure(
        states: Sequence[TensorTree], batches: Sequence[TensorTree]
    ) -> list[tuple[TensorTree, TensorTree]]:
        results = []
        for training, step, state, batch in zip(trainings, steps, states, batches, strict=True):
            with training.own_state():
                results.append(step(state, iter([batch])))
        return results

    # It donates nothing, so that the states before a failure stay.
    compiled = current_backend().compiled(pure, jit=True)

    def save() -> list[TensorTree]:
        states = [training.state() for training in trainings]
        for training, state in zip(trainings, states, strict=True):
            training.restore(state)
        return states

    def step(batches: Sequence[TensorTree]) -> list[TensorTree]:
        results = compiled([list(t.state()) for t in trainings], list(batches))
        for training, (_, state) in zip(trainings, results, strict=True):
            training.restore(state)
        return [logs for logs, _ in results]

    return save, step

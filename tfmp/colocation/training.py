"""Training: a run of one job, driven step by step from outside, with its own state.

Keras keeps its dtype policy, floatx and seeds once per thread or process. While a job builds,
traces and steps, they have the job's own values; afterwards they are restored. Jobs side by side do
not see each other's.
"""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import keras
import numpy as np
from keras import tree
from keras.src.backend.common import global_state

from tfmp.colocation.checkpoint import Checkpoint
from tfmp.colocation.job import Job, JobBatches
from tfmp.loss_scaling import LossScaleOptimizer, StaticLossScale, attach_loss_scale, read_counters
from tfmp.machine import measuring
from tfmp.precision import is_narrow, policy as policies
from tfmp.shared.arguments import made_by
from tfmp.shared.backend import TensorTree, current_backend
from tfmp.shared.batches import TrainingBatch
from tfmp.shared.progress import SILENT, Progress

# Keras's names for its state per thread (keras.src.random.seed_generator, rng_utils).
_SEED_GENERATOR, _SEED = "global_seed_generator", "global_random_seed"

_STATE = (
    "trainable_variables",
    "non_trainable_variables",
    "optimizer_variables",
    "metrics_variables",
)


class Training:
    """A job's model and the state of its training.

    Args:
        job: the job to train.
        progress: hears after each step how many are done.
    """

    def __init__(self, job: Job, progress: Progress = SILENT) -> None:
        self.job = job
        self.policy = policies.resolve_policy(job.policy).policy
        self.model: keras.Model | None = None
        self.steps_taken = 0
        self.samples = 0
        self.setup_s = 0.0
        self._progress = progress
        self._wide = policies.floatx_of(self.policy) == "float64"
        self._seeds: keras.random.SeedGenerator | None = None
        self._randomness = current_backend().random_state()
        self._logs: TensorTree = {}
        self._finished = False
        self._abandoned = False
        self._inside = False

    @property
    def done(self) -> bool:
        """Whether all steps are taken, a callback stopped the training, or it was abandoned."""
        return self._finished or self._abandoned

    def set_up(self) -> None:
        """Builds the model and takes the first step; only one job at a time may.

        The step compiles, and on JAX so does the first reading of metrics, as at an epoch's end.
        """
        start = time.perf_counter()
        with self.own_state(), _random_state_kept():
            keras.utils.set_random_seed(self.job.seed)
            self.model = self._build()
            self._batches = JobBatches(self.job)
            batch = self._placed(self._batches.peek())
            if not self.model.built:
                self.model(batch[0])
            self._apply_policy()
            self.model._symbolic_build(data_batch=batch)
            self._begin()
            if not self._finished:
                self.step(tracing=True)
                self._read_metrics()
        self.wait()
        self.setup_s = time.perf_counter() - start

    def step(self, tracing: bool = False) -> None:
        """Takes a step, with its callbacks."""
        batch = self.begin_step()
        with self.own_state(tracing):
            logs = self._compute(batch)
        self._finish_step(logs)

    def begin_step(self) -> tuple[TensorTree, ...]:
        """Calls the callbacks before a step; returns its batch on the device."""
        with self.own_state(tracing=False):
            batch = self._placed(next(self._batches))
            if self.steps_taken % self._epoch_steps == 0:
                self._model.reset_metrics()
                self._callbacks.on_epoch_begin(self._epoch)
                if current_backend().is_stateless:
                    self._model._jax_state_synced = True
            self._callbacks.on_train_batch_begin(self.steps_taken % self._epoch_steps)
        self.samples += len(tree.flatten(batch[0])[0])
        return batch

    def _compute(self, batch: tuple[TensorTree, ...]) -> TensorTree:
        """Computes the step: forward, backward, update; returns its logs."""
        model = self._model
        if not current_backend().is_stateless:
            return model.train_function(current_backend().feed([batch]))
        if model._jax_state_synced:  # by a callback, or by the beginning of an epoch
            model._jax_state_synced = False
            state = model._get_jax_state(**dict.fromkeys(_STATE, True), purge_model_variables=True)
        else:
            state = tuple(list(model._jax_state[name]) for name in _STATE)
        logs, state = model.train_function(state, iter([batch]))
        model._jax_state = dict(zip(_STATE, state, strict=True))
        return logs

    def _finish_step(self, logs: TensorTree) -> None:
        """Calls the callbacks after a step, and after an epoch."""
        with self.own_state(tracing=False):
            self._logs = logs
            self._callbacks.on_train_batch_end(self.steps_taken % self._epoch_steps, logs)
            self.steps_taken += 1
            stopped = self.steps_taken >= self.job.steps or self._model.stop_training
            if stopped or self.steps_taken % self._epoch_steps == 0:
                self._end_epoch()
                stopped = stopped or self._model.stop_training
        self._progress.count(self.steps_taken, self.job.steps)
        self._finished = bool(stopped)

    def end(self) -> None:
        """Puts the trained values into the model, and calls the callbacks."""
        with self.own_state(tracing=False):
            self.sync()
            optimizer = self._model.optimizer
            if isinstance(optimizer, keras.optimizers.Optimizer):
                optimizer.finalize_variable_values(self._model.trainable_weights)
            self._callbacks.on_train_end(self._epoch_logs)
            if current_backend().is_stateless:
                self._model._jax_state = None

    def abandon(self) -> None:
        """Makes the current step the last one, without ending its epoch.

        A checkpoint of half an epoch would count as one of a whole epoch.
        """
        self._abandoned = True

    def sync(self) -> None:
        """Puts the values that steps on JAX return into the model."""
        if current_backend().is_stateless:
            self._model.jax_state_sync()

    def wait(self) -> None:
        """Waits until the device has done the steps that were taken."""
        current_backend().synchronize(getattr(self.model, "_jax_state", None))

    def history(self) -> dict[str, list[float]]:
        """By metric, one value for each epoch."""
        history = getattr(self.model, "history", None)
        return (
            {} if history is None else {k: list(map(float, v)) for k, v in history.history.items()}
        )

    def skipped_steps(self) -> int:
        """The number of steps that the loss-scale optimizer did not apply."""
        optimizer = getattr(self.model, "optimizer", None)
        if not isinstance(optimizer, LossScaleOptimizer):
            return 0
        return read_counters(optimizer).skipped_steps

    def state_bytes(self) -> int:
        """Bytes of weights, optimizer state and metrics."""
        if self.model is None or not self.model.built:
            return 0
        held = (*self.model.variables, *self.model.optimizer.variables)
        return sum(map(measuring.size_in_bytes, held))

    @property
    def _model(self) -> keras.Model:
        assert self.model is not None
        return self.model

    @property
    def _epoch(self) -> int:
        return self.steps_taken // self._epoch_steps

    def _build(self) -> keras.Model:
        model = made_by(self.job.model, f"The function of job {self.job.name!r}")
        model.steps_per_execution = 1
        return model

    def _apply_policy(self) -> None:
        if not self._wide or self.job.keep_float32:
            policies.plan(self._model, self.policy, self.job.keep_float32).apply()
        if is_narrow(self.policy):
            scale = self.job.loss_scale
            if self.policy in ("mixed_bfloat16", "bfloat16") and scale == "dynamic":
                scale = StaticLossScale(1.0)
            attach_loss_scale(self._model, scale)

    def _begin(self) -> None:
        model, job = self._model, self.job
        self._epoch_steps = job.steps_per_epoch or self._batches.per_pass or job.steps
        self._epoch_logs: dict[str, float] = {}
        callbacks = list(job.callbacks() if callable(job.callbacks) else job.callbacks)
        if job.checkpoint is not None:
            callbacks.append(Checkpoint(job.checkpoint))
        self._callbacks = keras.callbacks.CallbackList(
            callbacks,
            add_history=True,
            add_progbar=False,
            verbose=0,
            epochs=-(-job.steps // self._epoch_steps),
            steps=self._epoch_steps,
            model=model,
        )
        model._initial_epoch = None
        model.make_train_function(force=True)
        model.stop_training = False
        if current_backend().is_stateless:
            model._jax_state, model._jax_state_synced = None, True
        self._callbacks.on_train_begin()
        if current_backend().is_stateless:
            model._jax_state_synced = True
        # The checkpoint knows the epoch in which the job was interrupted.
        self.steps_taken = min(job.steps, (model._initial_epoch or 0) * self._epoch_steps)
        self._batches.skip(self.steps_taken)
        self._finished = self.steps_taken >= job.steps

    def _end_epoch(self) -> None:
        self._epoch_logs = self._read_metrics()
        self._callbacks.on_epoch_end((self.steps_taken - 1) // self._epoch_steps, self._epoch_logs)

    def _read_metrics(self) -> dict[str, float]:
        self.sync()
        logs = dict(self._model._get_metrics_result_or_logs(self._logs))
        return {name: float(keras.ops.convert_to_numpy(value)) for name, value in logs.items()}

    def _placed(self, batch: TrainingBatch) -> tuple[TensorTree, ...]:
        return batch.placed(policies.floatx_of(self.policy))

    @contextmanager
    def own_state(self, tracing: bool = True) -> Iterator[None]:
        """Sets Keras's state to the job's own in this block, and restores it afterwards.

        floatx belongs to the process, not to the thread: it is switched only while no other job
        runs, for code that builds models or traces steps. Losses and metrics read it then.
        """
        if self._inside:
            yield
            return
        self._inside = True
        own, policy = current_backend(), keras.config.dtype_policy()
        randomness = own.random_state()
        own.set_random_state(self._randomness)
        seeds = global_state.get_global_attribute(_SEED_GENERATOR)
        keras.config.set_dtype_policy(policies.floatx_of(self.policy))
        global_state.set_global_attribute(_SEED_GENERATOR, self._seeds)
        try:
            with policies.floatx_scope(self.policy) if tracing else nullcontext():
                yield
        finally:
            self._inside = False
            self._randomness = own.random_state()
            own.set_random_state(randomness)
            self._seeds = global_state.get_global_attribute(_SEED_GENERATOR)
            global_state.set_global_attribute(_SEED_GENERATOR, seeds)
            keras.config.set_dtype_policy(policy)


@contextmanager
def _random_state_kept() -> Iterator[None]:
    """Restores Python's and NumPy's random generators, and Keras's seed."""
    python, numpy = random.getstate(), np.random.get_state()
    seed = global_state.get_global_attribute(_SEED)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        global_state.set_global_attribute(_SEED, seed)

"""The work of the experiment's own process: trains models, makes files of them, measures both."""

import math
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from operator import add, itemgetter
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfmp.calibration import GradientReport, calibrate
from tfmp.converters import convert, open_source
from tfmp.experiment.arms import BASE, FILES, TRAININGS, Arm, Training
from tfmp.experiment.loading import load_task
from tfmp.experiment.models import build, build_float32, fingerprint, in_16_bits
from tfmp.experiment.results import Run
from tfmp.experiment.tasks import Task
from tfmp.fit import MixedPrecision
from tfmp.loss_scaling import LossScale, ScheduledLossScale, attach_loss_scale, read_counters
from tfmp.machine import PeakMemory, devices
from tfmp.precision import policy_scope, revert
from tfmp.shared.atomic_file import replacing
from tfmp.shared.backend import current_backend
from tfmp.shared.batches import TrainingBatch
from tfmp.shared.wording import first_line

# Samples of the gradients that are looked at in float32.
_GRADIENT_BATCHES = 8


class Lab:
    """Runs arms of one task; `conductor.compare` holds it in a process of its own."""

    def __init__(self, task: str | Task) -> None:
        """Makes the task; see `load_task`."""
        self._task = load_task(task)
        self._warm = False

    def describe(self) -> dict[str, Any]:
        """Everything that results depend on, and what a report says of the task."""
        task = self._task
        model = build_float32(task)
        self._metric(model)  # a mistake in it is told before anything is trained
        return {
            "name": task.name,
            "about": task.about or "",
            "metric": task.metric_name,
            "sign": task.sign,
            "margin": task.margin,
            "epochs": task.epochs,
            "batch_size": task.batch_size,
            "train_samples": TrainingBatch(*task.train).samples,
            "test_samples": TrainingBatch(*task.test).samples,
            "weights": int(model.count_params()),
            "optimizer": type(model.optimizer).__name__,
            "epsilon": getattr(model.optimizer, "epsilon", None),
            "fingerprint": fingerprint(task, model),
            "backend": current_backend().name,
            "device": str(devices.visible_devices()[0]),
        }

    def train(self, name: str, seed: int, model_file: str) -> Run:
        """Trains an arm, and keeps its model if files can be made of it.

        Args:
            name: the arm.
            seed: of the initial weights, the order of batches, and dropout.
            model_file: `.keras` file for the trained model in float32.
        """
        training = TRAININGS[Arm(name).training]
        self._warm_up()
        model = self._model(training, seed)
        meter = PeakMemory()
        batches = _Batches(self._task, seed)
        watch = _Watch(len(batches))
        callbacks: list[keras.callbacks.Callback] = [watch]
        mixed = None
        if training.policy.startswith("mixed_"):
            mixed = MixedPrecision(training.policy, self._loss_scale(training, model))
            callbacks.append(mixed)
        keras.utils.set_random_seed(seed)
        history = model.fit(
            batches,
            epochs=self._task.epochs,
            shuffle=False,
            verbose=0,
            callbacks=callbacks,
        )
        memory = meter.read()
        metric = self._metric(model)
        run = Run(
            arm=name,
            seed=seed,
            metric=metric,
            losses=tuple(map(float, history.history["loss"])),
            steps=len(batches) * self._task.epochs,
            seconds_per_step=watch.seconds_per_step,
            memory_bytes=memory.bytes,
            memory_source=memory.source,
            stuck=watch.stuck,
            **_scaling(model, training),
        )
        if mixed is not None:
            told = mixed.report
            health = told.gradients if told and training.policy == "mixed_float16" else None
            run = replace(run, vanished=health.underflow if health else None)
            revert(model)
        if training.policy == "float32":
            run = replace(run, vanished=self._vanished(model))
        if training.policy != "float16":
            with replacing(Path(model_file)) as new:  # another experiment may read it
                model.save(new)
            run = replace(run, file=model_file)
        return run

    def ship(self, name: str, seed: int, model_file: str, output: str) -> Run:
        """Makes an arm's file of its trained model, and compares both.

        Args:
            name: the arm.
            seed: seed of the training.
            model_file: the trained model.
            output: path of the file without its suffix.
        """
        kind = FILES[Arm(name).file]
        task = self._task
        path = Path(f"{output}.{kind.format}")
        own = vars(sys.modules[task.build.__module__])  # where its layers are defined
        artifact = convert(
            open_source(model_file, custom_objects=own),
            kind.format,
            path,
            kind.precision,
            task.test,
            tasks=dict(task.outputs) or None,
            metric=task.metric,
            latency=True,
            force=True,
            **kind.options,
        )
        assert artifact.report is not None
        (candidate,) = artifact.report.candidates
        custom = [label for label in candidate.labels if label.kind == "custom"]
        failed = "" if custom else "; ".join(candidate.reasons) or "the file could not be compared"
        return Run(
            arm=name,
            seed=seed,
            metric=custom[0].candidate if custom else None,
            file_bytes=path.stat().st_size,
            latency_ms=candidate.latency.median_ms if candidate.latency else None,
            rel_l2=max((o.rel_l2 for o in candidate.outputs if o.rel_l2 is not None), default=None),
            verdict=str(candidate.verdict),
            reasons=() if candidate.verdict == "PASS" else tuple(candidate.reasons[:3]),
            file=str(path),
            error=failed,
        )

    def _warm_up(self) -> None:
        """Takes what only the first training of a process costs: memory of libraries, threads."""
        if not self._warm:
            x, y = _Batches(self._task, 0)[0]
            self._model(TRAININGS[BASE], 0).train_on_batch(x, y)
            self._warm = True

    def _model(self, training: Training, seed: int) -> keras.Model:
        """The model with the initial weights of this seed, which are the same for all arms."""
        keras.backend.clear_session()
        keras.utils.set_random_seed(seed)
        model = build(self._task)
        if training.policy != "float16":
            return model
        weights = model.get_weights()
        with policy_scope("float16"):
            model = build(self._task)
        if not in_16_bits(model):
            raise ValueError(
                "the function build sets dtypes itself, so that this model cannot be built in "
                "float16. Leave them to the global policy"
            )
        model.set_weights(weights)
        if training.loss_scale is not None:
            attach_loss_scale(model, self._loss_scale(training, model))
        return model

    def _metric(self, model: keras.Model) -> float:
        """The metric on the test samples; NaN if the predictions are not finite."""
        x, labels = self._task.test
        predictions = model.predict(x, verbose=0)
        if isinstance(predictions, list | tuple):
            predictions = dict(zip(model.output_names, predictions, strict=True))
        if isinstance(predictions, Mapping) and len(predictions) == 1:
            (predictions,) = predictions.values()
        values = predictions.values() if isinstance(predictions, Mapping) else [predictions]
        if not all(np.isfinite(np.asarray(each, np.float64)).all() for each in values):
            return math.nan
        try:
            return float(self._task.metric(predictions, labels))
        except Exception as error:
            raise ValueError(
                "Task(metric=...) expects a function that gives one number for predictions and "
                f"labels; it raised {type(error).__name__}: {first_line(error)}"
            ) from error

    def _loss_scale(self, training: Training, model: keras.Model) -> str | float | LossScale:
        if isinstance(training.loss_scale, Mapping):
            return ScheduledLossScale(training.loss_scale)
        if training.loss_scale != "calibrated":
            return training.loss_scale or 1.0
        report = self._gradients(model)
        return report.recommended_scale if report else 1.0

    def _gradients(self, model: keras.Model) -> GradientReport | None:
        """None for a model without a layer that a loss scale could help."""
        try:
            return calibrate(model, self._task.train, _GRADIENT_BATCHES, self._task.batch_size)
        except ValueError:
            return None

    def _vanished(self, model: keras.Model) -> float | None:
        """Share of gradients that FP16 would lose without loss scaling."""
        report = self._gradients(model)
        if report is None:
            return None
        whole = reduce(add, (row.histogram for row in report.layers if row.narrow))
        return whole.underflow(1.0) if whole.counts else None


def _scaling(model: keras.Model, training: Training) -> dict[str, Any]:
    if training.loss_scale is None:
        return {}
    counters = read_counters(model.optimizer)
    return {"loss_scale": counters.loss_scale, "skipped_steps": counters.skipped_steps}


class _Batches(keras.utils.PyDataset):
    """Whole batches in an order that follows from seed and epoch, whatever the arm."""

    def __init__(self, task: Task, seed: int) -> None:
        super().__init__()
        self._whole = TrainingBatch(*task.train)
        self._size, self._seed, self._epoch = task.batch_size, seed, -1
        self._count = self._whole.samples
        self.on_epoch_end()

    def __len__(self) -> int:
        return max(1, self._count // self._size)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        rows = self._order[index * self._size : (index + 1) * self._size]
        x, y, _ = self._whole.map(itemgetter(rows))
        return x, y

    def on_epoch_end(self) -> None:
        """Draws the order of the next epoch."""
        self._epoch += 1
        random = np.random.default_rng((self._seed, self._epoch))
        self._order = random.permutation(self._count)


class _Watch(keras.callbacks.Callback):
    """Times epochs of so many steps, and finds values that the last epoch did not move."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self._steps = steps
        self.stuck: float | None = None
        self._seconds: list[float] = []
        self._before: list[np.ndarray] = []

    @property
    def seconds_per_step(self) -> float | None:
        """Median over epochs without the first one, if there are several."""
        found = self._seconds[1:] or self._seconds
        return statistics.median(found) if found else None

    def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
        self._before = [np.asarray(v.numpy()) for v in self.model.trainable_variables]
        self._begun = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: object = None) -> None:
        self._seconds.append((time.perf_counter() - self._begun) / self._steps)
        now = [np.asarray(v.numpy()) for v in self.model.trainable_variables]
        same = sum(
            int(np.count_nonzero(one == other))
            for one, other in zip(self._before, now, strict=True)
        )
        self.stuck = same / max(1, sum(one.size for one in now))

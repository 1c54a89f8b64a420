"""Labels of a run: which output they belong to, and the answers against them so far."""

from collections.abc import Mapping, Sequence

import numpy as np

from tfmp.converters.drift import DECLARED, Task
from tfmp.converters.drift.labels.custom import CustomMetric
from tfmp.converters.drift.labels.drift import LabelDrift, label_drift
from tfmp.converters.drift.labels.kept import Arrays
from tfmp.converters.drift.labels.measuring import measure_labels, measure_own
from tfmp.converters.drift.labels.reading import (
    CUSTOM,
    kind_of,
    of_last_step,
    of_steps,
    read_labels,
    read_labels_of_steps,
    task_of_reading,
    unread_places,
)
from tfmp.converters.drift.labels.totals import LabelTotals, add_labels
from tfmp.converters.shared.errors import InputError

# Labels of one batch: for the one output they fit, or by output name.
Labels = np.ndarray | Mapping[str, np.ndarray]

# The reference's and the candidate's values by output, batch first.
Pairs = Mapping[str, tuple[np.ndarray, np.ndarray]]


class LabelBook:
    """Adds up answers against labels, output by output or by the metrics of the user's own."""

    def __init__(
        self,
        tasks: Mapping[str, Task | None],
        metrics: Sequence[CustomMetric] = (),
        steps: bool = False,
        readings: Mapping[str, str] | None = None,
    ) -> None:
        """Starts without samples.

        Args:
            tasks: what is known of each output of the reference, by name.
            metrics: metrics of the user's own. They take the place of those that labels choose.
            steps: whether samples are sequences, and the second axis is that of their steps.
            readings: the way to read labels by output; None to let the first batch decide.
        """
        self._tasks = tasks
        self._metrics = tuple(metrics)
        self._read = read_labels_of_steps if steps else read_labels
        self._totals: dict[str, LabelTotals] = {}
        self.readings = dict(readings or {})  # by output, once some labels have come
        self._samples = 0
        self.unread: dict[str, np.ndarray] = {}

    def update(self, labels: Labels, pairs: Pairs, keys: np.ndarray | None) -> None:
        """Adds one batch.

        Args:
            labels: labels of the batch; `unread` then holds the places that they leave out.
            pairs: values of both models.
            keys: uint64 of shape (samples,); None if every sample counts as a new one.

        Raises:
            InputError: the labels fit no output, or a metric of the user's own is a mistake.
        """
        self.unread = {}
        samples = len(keys) if keys is not None else len(next(iter(pairs.values()))[0])
        if keys is None:
            keys = np.arange(self._samples, self._samples + samples, dtype=np.uint64)
        self._samples += samples
        if self._metrics:
            self._update_own(labels, pairs, keys)
            return
        for output, truth in self._by_output(labels, pairs).items():
            self._update_output(output, np.asarray(truth), *pairs[output], keys)

    def _update_output(
        self,
        output: str,
        truth: np.ndarray,
        reference: np.ndarray,
        candidate: np.ndarray,
        keys: np.ndarray,
    ) -> None:
        if len(truth) != len(reference):
            raise InputError(
                f"labels for output {output!r}: {len(truth)} came with a batch of "
                f"{len(reference)} samples. Pass one label for each sample."
            )
        if reference.shape != candidate.shape:
            raise InputError(
                f"labels for output {output!r}: the reference's answer has shape "
                f"{reference.shape}, the candidate's {candidate.shape}, so labels belong to "
                "none of its places. Declare a metric of your own, or leave the labels out."
            )
        task = self._tasks.get(output)
        reading = self.readings.get(output)
        if reading is None:
            reading = self.readings[output] = self._read(truth, reference, output, task)
        axis = task.axis if task is not None else -1
        if of_last_step(reading):
            reference, candidate = reference[:, -1], candidate[:, -1]
            axis -= axis > 0
        elif (unread := unread_places(reading, truth, reference)) is not None:
            self.unread[output] = unread
        sides = truth, reference, candidate
        declared = task is not None and task.why == DECLARED
        found = measure_labels(of_steps(reading), *sides, output, keys, axis, declared)
        self._totals[output] = add_labels(self._totals.get(output, LabelTotals()), found)

    @property
    def notes(self) -> tuple[str, ...]:
        """Facts about the labels that a reader should know."""
        steps = (
            f"labels of output {output!r} are one for each sequence: its last step is judged by "
            "them"
            for output, reading in self.readings.items()
            if of_last_step(reading)
        )
        flags = (
            f"labels of output {output!r} are zeros and ones, and were compared as numbers. If "
            f"they name classes, declare --task {output}=classification, multilabel or binary"
            for output, totals in self._totals.items()
            if self._tasks.get(output) is None and len(totals.errors) and totals.zeros_and_ones
        )
        return (*steps, *flags)

    def task_of(self, output: str, task: Task | None) -> Task | None:
        """What to measure an output for, now that labels say how they are to be read.

        Args:
            output: the output's name.
            task: what is known of it.
        """
        reading = self.readings.get(output)
        if reading is None or (task is not None and task.why == DECLARED):
            return task
        return task_of_reading(reading) or task

    def drifts(self) -> tuple[LabelDrift, ...]:
        """The answers so far; empty without labels."""
        if self._metrics:
            output = next(iter(self._tasks)) if len(self._tasks) == 1 else ""
            return tuple(
                label_drift(output, CUSTOM, self._totals[metric.name])
                for metric in self._metrics
                if metric.name in self._totals
            )
        return tuple(
            label_drift(output, kind_of(self.readings[output]), totals)
            for output, totals in self._totals.items()
        )

    def _update_own(self, labels: Labels, pairs: Pairs, keys: np.ndarray) -> None:
        reference, candidate = (_of_model(pairs, side) for side in (0, 1))
        for metric in self._metrics:
            found = measure_own(metric, labels, reference, candidate, keys)
            before = self._totals.get(metric.name, LabelTotals())
            _check_same_form(metric, before, found)
            merged = self._totals[metric.name] = add_labels(before, found)
            merged.kept.check_size(merged.samples)

    def _by_output(self, labels: Labels, pairs: Pairs) -> Mapping[str, np.ndarray]:
        if isinstance(labels, Mapping):
            unknown = [name for name in labels if name not in pairs]
            if unknown:
                raise InputError(
                    f"labels are given for {unknown[0]!r}, which is no output of the reference; "
                    f"its outputs: {', '.join(pairs)}. Name the labels after these."
                )
            return labels
        if self.readings:
            return dict.fromkeys(self.readings, labels)
        fitting = [name for name in pairs if self._accepts(labels, pairs[name][0], name)]
        if len(pairs) == 1 or len(fitting) == 1:
            return {(fitting or list(pairs))[0]: labels}
        raise InputError(
            f"labels of shape {np.shape(labels)} fit "
            f"{len(fitting) or 'none'} of the outputs {', '.join(pairs)}. Pass labels by "
            "output name: a dict in Python, arrays named labels.OUTPUT in an .npz file."
        )

    def _accepts(self, labels: np.ndarray, output: np.ndarray, name: str) -> bool:
        try:
            self._read(np.asarray(labels), output, name, self._tasks.get(name))
        except InputError:
            return False
        return True


def _of_model(pairs: Pairs, side: int) -> Arrays:
    """The values of one model as a metric takes them."""
    if len(pairs) == 1:
        return next(iter(pairs.values()))[side]
    return {name: pair[side] for name, pair in pairs.items()}


def _check_same_form(metric: CustomMetric, before: LabelTotals, found: LabelTotals) -> None:
    if before.samples and bool(len(before.errors)) != bool(len(found.errors)):
        raise InputError(
            f"metric {metric.name!r} returned a number for each sample of some batches, and not of "
            "others. Let it return an array of shape (samples,) always, or a number always."
        )

"""Compares one candidate's outputs with the reference's, batch by batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tfmp.converters.drift.decisions import Decisions, count_decisions
from tfmp.converters.drift.detection import find_list, in_order, in_pairs
from tfmp.converters.drift.exact import merge
from tfmp.converters.drift.labels import CustomMetric, LabelBook, LabelDrift, Labels, kinds_of
from tfmp.converters.drift.metrics import OutputDrift, drift_of
from tfmp.converters.drift.tasks import Kind, Task, check_task, infer_task, is_floating
from tfmp.converters.drift.totals import Totals, measure
from tfmp.converters.shared.errors import InputError, RunnerError
from tfmp.converters.shared.tensors import Batch, TensorSpec, describe, fits, texts

if TYPE_CHECKING:
    from tfmp.converters.intake import OutputHint


@dataclass(frozen=True)
class Matching:
    """Pairs of tensors: one of the candidate for each one of the reference.

    Attributes:
        names: candidate name by reference name, in the reference's order.
        notes: a sentence for every match that was not made by name.
    """

    names: dict[str, str]
    notes: tuple[str, ...]


def match(
    reference: Sequence[TensorSpec],
    candidate: Sequence[TensorSpec],
    candidate_name: str,
    what: str = "output",
) -> Matching:
    """Pairs tensors by name, then by name without a file format's decoration, then by position.

    Where positions contradict shapes, and shapes leave only one choice each, shapes decide.

    Args:
        reference: tensors of the reference.
        candidate: tensors of the candidate; outputs beyond the reference's are left aside.
        candidate_name: name of the candidate in messages.
        what: word for the tensors in messages, "output" or "input".

    Raises:
        InputError: a tensor of the reference has no counterpart, or an input has none.
    """
    names = _match_by_name(reference, candidate)
    notes = []
    open_reference = [spec for spec in reference if spec.name not in names]
    open_candidate = [spec for spec in candidate if spec.name not in names.values()]
    if open_reference:
        pairs = _by_position(open_reference, open_candidate) or _by_shape(
            open_reference, open_candidate
        )
        if pairs is None:
            raise InputError(
                f"{candidate_name}: its {what}s cannot be matched with the reference's. Expected "
                f"{describe(reference)}; received {describe(candidate)}. Convert this model again, "
                "or name the candidate that belongs to this reference."
            )
        names |= {one.name: other.name for one, other in pairs}
        how = ", ".join(f"{one.name!r} with {other.name!r}" for one, other in pairs)
        notes.append(f"{what}s matched by position and shape, not by name: {how}")
    extra = [spec.name for spec in candidate if spec.name not in names.values()]
    if extra and what == "input":
        raise InputError(
            f"{candidate_name}: takes inputs that the reference does not have: "
            f"{', '.join(map(repr, extra))}. Expected {describe(reference)}; received "
            f"{describe(candidate)}. Name the candidate that belongs to this reference."
        )
    if extra:
        left = ", ".join(map(repr, extra))
        notes.append(f"{what}s that the reference does not have were left aside: {left}")
    return Matching({spec.name: names[spec.name] for spec in reference}, tuple(notes))


def _match_by_name(
    reference: Sequence[TensorSpec], candidate: Sequence[TensorSpec]
) -> dict[str, str]:
    names: dict[str, str] = {}
    for form in (str, _bare):
        left = [spec.name for spec in candidate if spec.name not in names.values()]
        for spec in reference:
            found = [name for name in left if form(name) == form(spec.name)]
            if spec.name not in names and len(found) == 1:
                names[spec.name] = found[0]
    return names


def _bare(name: str) -> str:
    """The name without additions of file formats: "image" for "serving_default_image:0"."""
    head, colon, index = name.rpartition(":")
    name = head if colon and index.isdecimal() else name
    return name.removeprefix("serving_default_")


Pairs = list[tuple[TensorSpec, TensorSpec]]


def _by_position(reference: Sequence[TensorSpec], candidate: Sequence[TensorSpec]) -> Pairs | None:
    if len(reference) > len(candidate):
        return None
    pairs = list(zip(reference, candidate, strict=False))
    return pairs if all(_fits(one, other) for one, other in pairs) else None


def _by_shape(reference: Sequence[TensorSpec], candidate: Sequence[TensorSpec]) -> Pairs | None:
    pairs = []
    for one in reference:
        fitting = [other for other in candidate if _fits(one, other)]
        if len(fitting) != 1:
            return None
        pairs.append((one, fitting[0]))
    distinct = {other.name for _, other in pairs}
    return pairs if len(distinct) == len(pairs) else None


def _fits(one: TensorSpec, other: TensorSpec) -> bool:
    """Whether nothing contradicts beyond the batch axis."""
    return len(one.shape) == len(other.shape) and fits(one.shape[1:], other.shape[1:])


class Comparison:
    """Accumulates drift and label results of one candidate over batches."""

    def __init__(
        self,
        name: str,
        reference: Sequence[TensorSpec],
        candidate: Sequence[TensorSpec],
        tasks: Mapping[str, Task] | None = None,
        hints: "Mapping[str, OutputHint] | None" = None,
        metrics: Sequence[CustomMetric] = (),
        steps: bool = False,
    ) -> None:
        """Pairs the outputs.

        Args:
            name: the candidate's name in messages.
            reference: outputs of the reference.
            candidate: outputs of the candidate.
            tasks: what outputs mean, as the user declared it, by the reference's names.
            hints: what the reference says of its outputs, by name.
            metrics: metrics of the user's own, in place of those that labels choose.
            steps: whether samples are sequences, and the second axis is that of their steps.

        Raises:
            InputError: an output of the reference has no counterpart, it has no outputs at all, or
                a declared task does not fit its output.
        """
        if not reference:
            raise InputError(
                f"{name}: the reference has no outputs, so there is nothing to compare. Pass a "
                "model with at least one output."
            )
        matching = match(reference, candidate, name)
        self.name = name
        self.tasks = known_tasks(reference, tasks or {}, hints or {})  # before values are known
        self._matched = matching.notes
        self._names = matching.names
        self._book = partial(LabelBook, self.tasks, metrics, steps)
        self.start_over()

    def start_over(self, label_kinds: Mapping[str, str] | None = None) -> None:
        """Forgets all batches.

        Args:
            label_kinds: the way to read labels by output; None to let the next batch decide.
        """
        self._totals = {name: Totals() for name in self._names}
        self._labels = self._book(label_kinds)

    @property
    def notes(self) -> tuple[str, ...]:
        """Facts that a reader should know."""
        return (*self._matched, *self._labels.notes)

    @property
    def label_kinds(self) -> Mapping[str, str]:
        """The way to read labels by output, once some have come."""
        return self._labels.readings

    def update(
        self,
        reference: Batch,
        candidate: Batch,
        labels: Labels | None = None,
        keys: np.ndarray | None = None,
        unread: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        """Adds one batch.

        Args:
            reference: the reference's outputs by name.
            candidate: the candidate's outputs by its own names.
            labels: labels of these samples, if there are any.
            keys: uint64 of shape (samples,), the same one for samples with the same inputs; None
                if every sample counts as a new one.
            unread: places that nobody reads, as `unread` gives them; those that `labels` leave
                out if there are any.

        Raises:
            RunnerError: the candidate's outputs have other shapes or kinds of values.
            InputError: the labels fit no output.
        """
        self._labels.unread = {}
        single = keys is not None and len(keys) == 1
        given = {name: self._pair(name, reference, candidate, single) for name in self._names}
        if found := find_list(given):
            given = in_order(found, given)
        if labels is not None:
            self._labels.update(labels, given, keys)
            unread = self.unread
        for name, before in self._totals.items():
            expected, received = given[name]
            unmatched, task = Decisions(), self._known(name)
            if expected.shape != received.shape and not _are_boxes(task):
                lengths = len(expected[0]), len(received[0])
                missing, most = np.array([abs(lengths[1] - lengths[0])]), np.array([max(lengths)])
                unmatched = count_decisions(missing, most)
                one, other = in_pairs(expected[0], received[0])
                expected, received = one[None], other[None]
            batch = measure(expected, received, task, keys, (unread or {}).get(name))
            self._totals[name] = merge(before, replace(batch, unmatched=unmatched))

    @property
    def unread(self) -> Mapping[str, np.ndarray]:
        """By output, the places that labels of the last batch leave out, such as padding."""
        return self._labels.unread

    def outputs(self) -> tuple[OutputDrift, ...]:
        """The drift of every output so far, in the reference's order."""
        kinds = kinds_of(self.labels())
        return tuple(
            drift_of(name, totals, self._known(name), kinds.get(name))
            for name, totals in self._totals.items()
        )

    def _known(self, output: str) -> Task | None:
        """What is known of an output without its values and those of its labels."""
        return self._labels.task_of(output, self.tasks[output])

    def labels(self) -> tuple[LabelDrift, ...]:
        """The results on labels so far; empty without labels."""
        return self._labels.drifts()

    def _pair(
        self, output: str, reference: Batch, candidate: Batch, single: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """The values of both sides, batch first; those of a `single` sample may differ in rows."""
        name = self._names[output]
        if name not in candidate:
            raise RunnerError(
                f"{self.name}: its run gave no output {name!r}; it gave "
                f"{', '.join(map(repr, candidate)) or 'none'}."
            )
        expected, received = _plain(reference[output]), _plain(candidate[name])
        if (
            single
            and expected.ndim == received.ndim > 0
            and not len(expected) == len(received) == 1
        ):
            expected, received = expected[None], received[None]  # lists without a batch axis
        lists = single and expected.ndim == received.ndim > 1
        if expected.shape != received.shape and not (
            lists and expected.shape[2:] == received.shape[2:]
        ):
            raise RunnerError(
                f"{self.name}: output {name!r} has shape {received.shape}, the reference's "
                f"{output!r} has {expected.shape}: values have no counterparts. Convert this model "
                "again, or name the candidate that belongs to this reference."
            )
        if is_floating(expected.dtype) != is_floating(received.dtype):
            raise RunnerError(
                f"{self.name}: output {name!r} is {received.dtype}, the reference's {output!r} is "
                f"{expected.dtype}: distances between them mean nothing. Convert with outputs of "
                f"the reference's kind (a quantized file needs float inputs and outputs)."
            )
        return expected, received


def known_tasks(
    outputs: Sequence[TensorSpec], tasks: Mapping[str, Task], hints: "Mapping[str, OutputHint]"
) -> dict[str, Task | None]:
    """What is known of each output before its values are, by name.

    Raises:
        InputError: a declared task is of no output, or does not fit its output.
    """
    specs = {spec.name: spec for spec in outputs}
    for name, task in tasks.items():
        if name not in specs:
            raise InputError(
                f"a task is declared for output {name!r}, which the reference does not have; its "
                f"outputs: {', '.join(specs)}. Name one of these."
            )
        check_task(task, specs[name])
    return {
        name: tasks.get(name)
        or infer_task(name, str(spec.dtype), tuple(spec.shape), hints.get(name))
        for name, spec in specs.items()
    }


def _are_boxes(task: Task | None) -> bool:
    return task is not None and task.kind is Kind.DETECTION


def _plain(array: np.ndarray) -> np.ndarray:
    """As a NumPy array, texts alike whichever framework they are from."""
    array = np.asarray(array)
    return texts(array) if array.dtype.kind in "OSU" else array

"""Samples for a model that keeps states: sequences of steps, or single steps with their states."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tfmp.converters.samples.data import Samples, open_data
from tfmp.converters.samples.files import open_path
from tfmp.converters.samples.sources import Data, RawArrays, RawLabels, Stream, stream_of
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.layout import Layout, likely_states
from tfmp.converters.shared.tensors import TensorSpec


def open_in_layout(
    data: Data,
    labels: RawLabels,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    layout: Layout,
) -> Samples:
    """Opens samples in the layout that they have.

    Data that holds the states is of single steps. Data that holds all but the states is of
    sequences; where the model does not say which inputs are states, those are tried that the data
    lacks.

    Args:
        data: see `open_data`.
        labels: likewise.
        inputs: the model's own.
        outputs: likewise.
        layout: as far as the model tells it.

    Raises:
        InputError: the data is missing, unreadable or empty, or fits neither way.
    """
    names = _names(data, layout.inputs(inputs)) if len(inputs) > 1 else set()
    note = ""
    if layout.states:
        if names & layout.states.keys():
            layout = Layout(layout.axes)
    elif names and (missing := [spec for spec in inputs if spec.name not in names]):
        states = likely_states(missing, outputs)
        if states is not None and len(missing) < len(inputs):
            layout = Layout(layout.axes, states)
            pairs = ", ".join(f"{name}={state.output}" for name, state in states.items())
            note = (
                f"the data lacks {', '.join(map(repr, states))}: taken for states that outputs "
                f"hand to the next step, from zeros on (--state {pairs})"
            )
    try:
        samples = open_data(data, layout.inputs(inputs), labels)
    except InputError as error:
        if not layout.states:
            raise
        kept = ", ".join(map(repr, layout.states))
        raise InputError(
            f"{error} The model keeps states ({kept}), so a sample is a sequence: arrays of shape "
            "(samples, steps, ...) without the states. Or pass single steps, with the states "
            "among the arrays."
        ) from error
    notes = (*samples.stream.notes, note) if note else samples.stream.notes
    return replace(samples, layout=layout, stream=replace(samples.stream, notes=notes))


def _names(data: Data, inputs: Sequence[TensorSpec]) -> set[str]:
    """Names of the arrays that data holds, as far as they show before all of it is read."""
    if isinstance(data, str | os.PathLike):
        return _named(_arrays(open_path(os.fspath(data), inputs)))
    if isinstance(data, Mapping) or (isinstance(data, tuple) and len(data) == 2):
        return _named(data if isinstance(data, Mapping) else data[0])
    return _named(_arrays(stream_of(data, inputs)))


def _arrays(stream: Stream) -> RawArrays:
    if stream.whole is not None or stream.once:
        return stream.whole
    return next(stream.batches(1), (None, None))[0]


def _named(arrays: RawArrays) -> set[str]:
    return set(arrays) if isinstance(arrays, Mapping) else set()

"""Samples for a model that keeps states: sequences of steps, or single steps with their states."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from tfmp.converters.samples.data import Samples, open_data, stream_for
from tfmp.converters.samples.fit import arrays_by_name
from tfmp.converters.samples.sources import Data, RawLabels
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.layout import Layout, State, carried_states
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
        data, labels: see `open_data`.
        inputs: the model's own.
        outputs: likewise.
        layout: as far as the model tells it.

    Raises:
        InputError: the data is missing, unreadable or empty, or fits neither way.
    """
    data, head = _peeked(data) if isinstance(data, Iterator) else (data, data)
    notes: tuple[str, ...] = ()
    names: set[str] = set()
    try:
        if len(inputs) > 1:
            names = _names(head, layout.inputs(inputs))
        missing = [spec for spec in inputs if names and spec.name not in names]
        if names & layout.states.keys():
            layout = Layout(layout.axes)
        elif missing and not layout.states:
            states = carried_states(missing, outputs)
            if states and len(missing) < len(inputs):
                layout = Layout(layout.axes, states)
                notes = (
                    f"the data lacks {', '.join(map(repr, states))}: taken for states that outputs "
                    f"hand to the next step, from zeros on ({_flags(states)})",
                )
        samples = open_data(data, layout.inputs(inputs), labels)
    except InputError as error:
        raise InputError(f"{error}{_advice(layout, inputs, outputs, bool(names))}") from error
    stream = replace(samples.stream, notes=(*samples.stream.notes, *notes))
    return replace(samples, layout=layout, stream=stream)


def _advice(
    layout: Layout, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], named: bool
) -> str:
    """The form of samples for a model with states, or for one that may have some."""
    form = (
        "a sample is a sequence: arrays of shape (samples, steps, ...) without the states. Or pass "
        "single steps, with the states among the arrays."
    )
    if layout.states:
        return f" The model keeps states ({', '.join(map(repr, layout.states))}), so {form}"
    others = ([spec for spec in inputs if spec is not own] for own in inputs)
    states = next(filter(None, (carried_states(some, outputs) for some in others)), None)
    if named or states is None:
        return ""
    return f" If outputs hand inputs to the next step ({_flags(states)}), {form}"


def _flags(states: Mapping[str, State]) -> str:
    pairs = ", ".join(f"{name}={state.output}" for name, state in states.items())
    return f"--state {pairs}"


def _peeked(batches: Iterator[Data]) -> tuple[Data, Data]:
    """Batches that can be read only once, and arrays of the first one, which stays among them."""
    first = next(batches, None)
    if first is None:
        return batches, None
    return chain([first], batches), first[0] if isinstance(first, tuple) else first


def _names(data: Data, inputs: Sequence[TensorSpec]) -> set[str]:
    """Names of the arrays that data holds, as far as they show before all of it is read."""
    if data is None:
        return set()
    stream = stream_for(data, inputs)
    arrays = stream.head
    if isinstance(arrays, np.ndarray):
        arrays_by_name(arrays, inputs, stream.name)  # says of several inputs that one is too few
    return set(arrays) if isinstance(arrays, Mapping) else set()

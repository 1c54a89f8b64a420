"""Where samples lie in the arrays of a model: on which axis, and which arrays go around in a loop.

Data has the samples on the first axis of every array. A model may have them elsewhere, and a model
that works on a stream takes one step at a time, with a state that each call hands to the next. Then
a sample is a whole sequence of steps, which starts from the state that the model begins with.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.tensors import Batch, TensorSpec, describe, fits

Call = Callable[[Batch], Batch]


@dataclass(frozen=True)
class State:
    """An input that takes what an output gave one call before.

    Attributes:
        output: name of the output.
        start: value for the first call; None for zeros.
    """

    output: str
    start: np.ndarray | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Layout:
    """The way from the arrays of the data to those of the model, and back.

    Attributes:
        axes: axis of the samples, by the name of an input or output whose first axis it is not;
            None for an array that is one sample.
        states: states by the name of their input; with any, the second axis of the data's arrays
            is that of the steps.
    """

    axes: Mapping[str, int | None] = field(default_factory=dict)
    states: Mapping[str, State] = field(default_factory=dict)

    def axis(self, name: str) -> int | None:
        """The axis of the samples in an input or output."""
        return self.axes.get(name, 0)

    def samples_in(self, spec: TensorSpec) -> int | None:
        """The number of samples that an input or output fixes."""
        axis = self.axis(spec.name)
        return 1 if axis is None else spec.shape[axis]

    def any_samples(self, spec: TensorSpec) -> bool:
        """Whether an input or output leaves the number of samples open."""
        return bool(spec.shape) and self.samples_in(spec) is None

    def with_samples(self, spec: TensorSpec, samples: int) -> TensorSpec:
        """The spec of an input or output with a number of samples."""
        shape, axis = spec.shape, self.axis(spec.name)
        if axis is None:
            return spec
        return replace(spec, shape=(*shape[:axis], samples, *shape[axis + 1 :]))

    def fixed_samples(self, specs: Sequence[TensorSpec]) -> int | None:
        """The number of samples that a model fixes; None if it is open, or inputs contradict.

        Args:
            specs: the model's own inputs. A state tells where the axis of its samples is known.
        """
        telling = [spec for spec in specs if spec.name not in self.states or spec.name in self.axes]
        sizes = {self.samples_in(spec) for spec in telling if spec.shape} - {None}
        return sizes.pop() if len(sizes) == 1 else None

    def first_call(
        self, specs: Sequence[TensorSpec], batch: Batch, samples: int = 1
    ) -> tuple[Batch, int]:
        """The arrays of the first call that a model takes, and the number of samples in it.

        Args:
            specs: the model's own inputs.
            batch: arrays of the data, which are cut or repeated to the number that the model fixes,
                or to `samples`.
            samples: number of samples for a model that fixes none.
        """
        rows = self.fixed_samples(specs) or samples
        cut = {
            name: np.resize(array, (rows, *array.shape[1:])) if array.ndim else array
            for name, array in batch.items()
        }
        if not self.states:
            return self._fed(cut), rows
        return {**self._fed(_step(cut, 0)), **self._start(specs, cut)}, rows

    def inputs(self, specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        """The model's inputs as the data has them."""
        return self._seen([spec for spec in specs if spec.name not in self.states])

    def outputs(self, specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        """The model's outputs as they are compared."""
        return self._seen([spec for spec in specs if spec.name not in self._carried])

    def _seen(self, specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        seen = []
        for spec in specs:
            shape = list(spec.shape)
            if shape:
                axis = self.axis(spec.name)
                shape.insert(0, 1 if axis is None else shape.pop(axis))
                shape[1:1] = [None] if self.states else []
            seen.append(replace(spec, shape=tuple(shape)))
        return tuple(seen)

    def run(self, call: Call, specs: Sequence[TensorSpec], batch: Batch) -> Batch:
        """Runs a model on arrays of the data.

        Args:
            call: runs the model itself.
            specs: the model's own inputs.
            batch: arrays as the data has them.

        Returns:
            Outputs as they are compared.
        """
        given: list[Batch] = []

        def kept(fed: Batch) -> Batch:
            outputs = call(fed)
            given.append({n: self._first(n, outputs[n]) for n in outputs if n not in carried})
            return outputs

        carried = self._carried
        for fed in self.calls(kept, specs, batch):
            if not self.states:
                kept(fed)
                return given[0]
        return {name: np.stack([one[name] for one in given], axis=1) for name in given[0]}

    def calls(self, call: Call, specs: Sequence[TensorSpec], batch: Batch) -> Iterator[Batch]:
        """The arrays of each call that `run` makes, as the model takes them; see `run`."""
        if not self.states:
            yield self._fed(batch)
            return
        held = self._start(specs, batch)
        for step in range(_steps(batch)):
            fed = {**self._fed(_step(batch, step)), **held}
            yield fed
            outputs = call(fed)
            held = {name: outputs[state.output] for name, state in self.states.items()}

    def _fed(self, batch: Batch) -> Batch:
        return {name: self._placed(name, array) for name, array in batch.items()}

    def _placed(self, name: str, array: np.ndarray) -> np.ndarray:
        axis = self.axis(name)
        if axis is None:
            return array[0]
        return np.moveaxis(array, 0, axis) if array.ndim else array

    def _first(self, name: str, array: np.ndarray) -> np.ndarray:
        axis = self.axis(name)
        return np.asarray(array)[None] if axis is None else np.moveaxis(array, axis, 0)

    @property
    def _carried(self) -> set[str]:
        return {state.output for state in self.states.values()}

    def _start(self, specs: Sequence[TensorSpec], batch: Batch) -> Batch:
        samples = next(len(array) for array in batch.values() if array.ndim)
        started = {}
        for spec in specs:
            if spec.name not in self.states:
                continue
            # All that is open in a state is the number of samples.
            shape = [samples if size is None else size for size in spec.shape]
            start = self.states[spec.name].start
            value = np.zeros(shape, spec.dtype) if start is None else start
            started[spec.name] = np.broadcast_to(value, shape).astype(spec.dtype)
        return started

    def renamed(self, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> "Layout":
        """The layout of a model whose inputs and outputs have other names.

        Args:
            inputs: the other names of the inputs.
            outputs: those of the outputs.
        """
        both = {**outputs, **inputs}
        return Layout(
            {both[name]: axis for name, axis in self.axes.items()},
            {
                inputs[name]: replace(state, output=outputs[state.output])
                for name, state in self.states.items()
            },
        )


PLAIN = Layout()


def _step(batch: Batch, step: int) -> Batch:
    return {name: array[:, step] if array.ndim else array for name, array in batch.items()}


def _steps(batch: Batch) -> int:
    steps = {array.shape[1] for array in batch.values() if array.ndim}
    if len(steps) != 1 or 0 in steps:
        listed = ", ".join(f"{name!r}: {array.shape}" for name, array in batch.items())
        raise InputError(
            "a sequence needs the same number of steps, at least one, in every input; received "
            f"arrays of shapes {listed}",
            "The second axis is that of the steps",
        )
    return steps.pop()


def declared_axes(
    axes: Mapping[str, int | None], inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec] = ()
) -> dict[str, int | None]:
    """Axes of samples that a user declares, checked.

    Where no input has one, no output has.

    Raises:
        InputError: no input or output has that name, or it has no such axis.
    """
    specs = (*inputs, *outputs)
    ranks = {spec.name: len(spec.shape) for spec in specs}
    for name, axis in axes.items():
        if name not in ranks:
            raise InputError(
                f"sample axis for {name!r} (--sample-axis): the model has no such input or output",
                f"Name one of these: {describe(specs)}",
            )
        if not ranks[name] or (axis is not None and not 0 <= axis < ranks[name]):
            raise InputError(
                f"sample axis {axis} for {name!r} (--sample-axis): it has {ranks[name]} axes, "
                "counted from 0",
                "Give one of them",
            )
    found = dict(axes)
    if None in axes.values() and all(axes.get(x.name, 0) is None for x in inputs if x.shape):
        found = {**dict.fromkeys(spec.name for spec in outputs if spec.shape), **axes}
    return found


def declared_states(
    states: Mapping[str, str], inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> dict[str, State]:
    """States that a user declares, checked.

    Args:
        states: outputs by the name of the state's input.
        inputs: of the model.
        outputs: of the model.

    Raises:
        InputError: there is no such input or output, or they do not fit.
    """
    given, taken = ({spec.name: spec for spec in specs} for specs in (inputs, outputs))
    for name, output in states.items():
        if name not in given or output not in taken:
            kind, wrong, specs = (
                ("input", name, inputs) if name not in given else ("output", output, outputs)
            )
            raise InputError(
                f"state {name}={output} (--state): the model has no {kind} {wrong!r}",
                f"Name one of its {kind}s: {describe(specs)}",
            )
        if not _carries(taken[output], given[name]):
            raise InputError(
                f"state {name}={output} (--state): {taken[output]} does not fit into {given[name]}",
                "Name the output of the same shape",
            )
    if states and len(states) == len(inputs):
        raise InputError(
            "every input is a state (--state): the data would be empty",
            "Leave one",
        )
    return {name: State(output) for name, output in states.items()}


def carried_states(
    missing: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> dict[str, State] | None:
    """Inputs that the data lacks as states that outputs carry on: those of their shapes, in order.

    Returns:
        States by input; None where as many outputs do not have the dtype and shape of some of them.
    """
    found: dict[str, State] = {}
    for spec in missing:
        alike = [one for one in missing if _carries(one, spec)]
        fitting = [one for one in outputs if _carries(one, spec)]
        if not spec.shape or len(fitting) != len(alike):
            return None
        found[spec.name] = State(fitting[alike.index(spec)].name)
    return found


def _carries(output: TensorSpec, state: TensorSpec) -> bool:
    return output.dtype == state.dtype and fits(output.shape, state.shape)

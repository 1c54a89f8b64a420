"""What the user and the data say of a model's inputs, which holds from the first trace on."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from tfmp.converters.intake.architecture import Architecture
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.layout import PLAIN, Layout, declared_axes, declared_states
from tfmp.converters.shared.memory import check_memory
from tfmp.converters.shared.tensors import TensorSpec, describe

Specs = tuple[TensorSpec, ...]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes, dtypes, axes of samples and states that are known before a model is opened.

    Attributes:
        batch_size: fixes the axis of the samples of every input; None leaves it as it is.
        input_shapes: whole shapes, batch axis included, by input name.
        sample_axes: axis of the samples, by the name of an input or output whose first axis it is
            not, such as {"state": 1}; None for an array that is one sample.
        states: outputs that carry a state to the next call, by the name of the state's input. Data
            then holds sequences, (samples, steps, ...), without the states, which begin as zeros.
        whole_numbers: the dtypes of those inputs that the data holds as integers or Booleans.
    """

    batch_size: int | None = None
    input_shapes: Mapping[str, Sequence[int | None]] | None = None
    sample_axes: Mapping[str, int | None] | None = None
    states: Mapping[str, str] | None = None
    whole_numbers: Callable[[Specs], Mapping[str, str]] | None = None

    @property
    def shapes(self) -> Mapping[str, Sequence[int | None]]:
        """The shapes that were given."""
        return self.input_shapes or {}

    def whole(self, name: str) -> Sequence[int | None]:
        """The shape that was given of an input whose number of axes the model leaves open."""
        if name not in self.shapes:
            raise InputError(
                f"input {name!r} has no fixed number of axes",
                f"Give its shape with --input-shape {name}=SIZES (input_shapes={{...}})",
            )
        return self.shapes[name]

    def of(self, specs: Sequence[TensorSpec], told: Layout = PLAIN) -> Specs:
        """Inputs with these sizes.

        Args:
            specs: the inputs as the model declares them.
            told: where the model says that samples lie.

        Raises:
            InputError: a name that is no input, or a shape that contradicts the model's or is too
                large.
        """
        names = {spec.name for spec in specs}
        aliases = {spec.alias: spec.name for spec in specs if spec.alias not in names}
        if not aliases.keys().isdisjoint(self.shapes):
            shapes = {aliases.get(name, name): shape for name, shape in self.shapes.items()}
            return replace(self, input_shapes=shapes).of(specs, told)
        unknown = sorted(set(self.shapes) - names)
        if unknown:
            raise InputError(
                f"input shape for {unknown[0]!r}: the model has no such input",
                f"Name one of its inputs: {describe(specs)}",
            )
        own = {name: axis for name, axis in (self.sample_axes or {}).items() if name in names}
        layout = Layout({**told.axes, **declared_axes(own, specs)})
        return tuple(self._fixed(spec, layout) for spec in specs)

    def untold(self, specs: Specs) -> Specs:
        """Inputs with the dtypes of the data, for a model that recorded the sizes of one call."""
        found: Mapping[str, str] = {}
        if self.whole_numbers is not None:
            with suppress(InputError):  # data that do not fit are refused when they are opened
                found = self.whole_numbers(specs)
        return tuple(
            replace(
                spec,
                dtype=found.get(spec.name, spec.dtype),
                shape=(None,) * len(spec.shape) if spec.name in self.shapes else spec.shape,
            )
            for spec in specs
        )

    def layout(
        self, told: Layout, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
    ) -> Layout:
        """The layout that a model tells, with what was declared.

        Raises:
            InputError: a declared axis or state fits no input or output.
        """
        axes = declared_axes(self.sample_axes or {}, inputs, outputs)
        states = declared_states(self.states or {}, inputs, outputs)
        return Layout({**told.axes, **axes}, {**told.states, **states})

    def within(self, names: Collection[str]) -> "Sizes":
        """The sizes for another entry point of the same model, which has these inputs."""
        shapes = {name: shape for name, shape in self.shapes.items() if name in names}
        return Sizes(batch_size=self.batch_size, input_shapes=shapes)

    def _fixed(self, spec: TensorSpec, layout: Layout) -> TensorSpec:
        shape = tuple(self.shapes.get(spec.name, spec.shape))
        if self.batch_size is not None and shape:
            if spec.name not in self.shapes:
                shape = layout.with_samples(spec, self.batch_size).shape
            if layout.samples_in(replace(spec, shape=shape)) not in (self.batch_size, None):
                raise InputError(
                    f"input {spec.name!r} is {shape}, but the batch size is {self.batch_size}",
                    "Give one of them, or the same number in both",
                )
        fits = len(shape) == len(spec.shape) and all(
            own is None or own == size for own, size in zip(spec.shape, shape, strict=True)
        )
        if not fits or any(size is not None and size < 1 for size in shape):
            received = ", ".join("?" if size is None else str(size) for size in shape)
            raise InputError(
                f"input {spec.name!r} cannot have shape [{received}]: the model declares {spec}",
                "Give a size of at least 1 for each axis, equal to the model's where it is fixed",
            )
        fixed = replace(spec, shape=shape)
        check_memory(f"input {fixed}", fixed.call_bytes)
        return fixed


@dataclass(frozen=True, kw_only=True)
class Opening(Sizes):
    """How a model is opened, besides its sizes.

    Attributes:
        signature: name of a SavedModel's signature; see `from_saved_model`.
        all_signatures: also take a SavedModel whose signatures all have unusual names.
        custom_objects: classes and functions that a Keras file names.
        custom_modules: names of modules whose public classes and functions are taken, too.
        unsafe_load: run Python code that a Keras file brings along, and graphs of a SavedModel that
            do more than compute.
        architecture: builds the model for a file of weights: a JSON file of `model.to_json()`,
            "FILE.py:function" or a function; None for the JSON file of the same name.
        lean: start TensorFlow without what conversion does not need.
    """

    signature: str | None = None
    all_signatures: bool = False
    custom_objects: Mapping[str, Any] | None = None
    custom_modules: Sequence[str] = ()
    unsafe_load: bool = False
    architecture: Architecture | None = None
    lean: bool = False

"""A function that was traced on either backend: its tensors, and the marked layers behind them."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Protocol

import keras
from keras import tree

from tfmp.precision import NARROW_DTYPES
from tfmp.precision.tracing.hazards import Fact
from tfmp.shared.backend import Tensor, TensorTree


class Marks(Protocol):
    """The layers that returned each traced tensor, and whose code made each operation.

    The operations of a graph between its layers are marked as layers are.
    """

    def add(self, layer: keras.Operation | keras.Variable, outputs: TensorTree) -> TensorTree:
        """Marks a layer's results, and returns them marked: use them in place of the others.

        The readings of variables are marked as results of layers are.
        """

    def begin(self, layer: keras.Operation, arguments: TensorTree) -> tuple[TensorTree, int]:
        """Marks the begin of a layer's own code; returns its arguments marked, and a place."""

    def end(self, layer: keras.Operation, begin: int) -> None:
        """Marks the end of a layer's code, after the layers in it have ended theirs."""


@dataclass(frozen=True)
class Origin:
    """The layer or operation that a tensor comes from, one step back towards the inputs.

    Attributes:
        layer: id of the layer that returned the tensor; None for an operation.
        sources: the tensors that went in.
        is_operation: False for a mere connection, such as the call of an inlined function.
        inside: ids of the layers that ran inside the operation, a loop or branch, which no walk
            enters.
    """

    layer: int | None
    sources: tuple[Hashable, ...]
    is_operation: bool = True
    inside: frozenset[int] = frozenset()


class Graph(Protocol):
    """A traced function.

    Attributes:
        outputs: the results of the function.
        facts: the constants and sums in the layers' own code.
    """

    outputs: list[Hashable]
    facts: list[Fact]

    def origin(self, tensor: Hashable) -> Origin:
        """The origin of a tensor, one step towards the inputs."""


@dataclass(frozen=True)
class Inputs:
    """The arguments to trace a model with.

    Attributes:
        keywords, positional: nested structures of `KerasTensor`s, which have shapes and dtypes.
        size: the number that stands for unknown sizes; None for a symbol.
    """

    keywords: dict[str, TensorTree]
    positional: list[TensorTree]
    size: int | None = None

    def of_zeros(self) -> tuple[list[TensorTree], dict[str, TensorTree]]:
        """Two rows of zeros, by position and by name; 8 stands for other sizes that are unknown."""

        def zeros(spec: keras.KerasTensor | None) -> Tensor | None:
            if spec is None:
                return None
            sizes = [one or self.size or 8 for one in spec.shape]
            if spec.shape[:1] == (None,):
                sizes[0] = 2
            return keras.ops.zeros(sizes, spec.dtype)

        return tree.map_structure(zeros, (self.positional, self.keywords))


# Takes a model's keyword arguments and its positional ones.
Traceable = Callable[[Mapping[str, TensorTree], list[TensorTree]], TensorTree]


def over_tensors(function: Callable[[Tensor], Tensor], values: TensorTree) -> TensorTree:
    """The values with each tensor in them replaced by the function's result for it."""

    def is_tensor(value: object) -> bool:
        # Keras counts its variables as tensors; a layer may get one as an argument.
        return keras.ops.is_tensor(value) and not isinstance(value, keras.Variable)

    return tree.map_structure(lambda value: function(value) if is_tensor(value) else value, values)


def promotes(source: str, target: str) -> bool:
    """Whether a conversion between these dtypes leaves a narrow one for float32."""
    return source in NARROW_DTYPES and target == "float32"

"""A float32 model that can be traced, run and compared with; every other room works on it."""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from tfmp.converters.intake.hints import Loss, OutputHint, onnx_hints, traced_hints
from tfmp.converters.intake.saved import Graph, Rewrite, fill, inserted, lacks, writes
from tfmp.converters.shared.errors import ConversionError
from tfmp.converters.shared.frameworks import KerasModel, TracedFunction, Variable
from tfmp.converters.shared.layout import PLAIN, Layout
from tfmp.converters.shared.tensors import Batch, TensorSpec, describe, texts
from tfmp.converters.shared.time_limits import called_in_time
from tfmp.converters.shared.traced_runs import run_traced
from tfmp.shared.backend import Tensor, TensorTree
from tfmp.shared.wording import listed, one_line

if TYPE_CHECKING:
    import onnx_ir as ir

# Variables that a model writes and that are named.
_MOST_KEPT = 3
# Weights that hold NaN and are named; once one does, training spreads it to all.
_MOST_NAN = 3

Call = Callable[[dict[str, Tensor]], dict[str, Tensor]]
MarkedLayers = Callable[[], AbstractContextManager[dict[str, str]]]


@dataclass(frozen=True)
class Origin:
    """The place that a model came from.

    Attributes:
        name: the model's name in reports and file names.
        format: "keras", "savedmodel", "tf.function" or "onnx".
        path: the file or folder it was loaded from, or None for a live model.
        sha256: hash of that file or folder, or of a live model's weights.
        size_bytes: size of that file or folder; None for a live model.
        notes: changes that were made when the model was opened, for the report.
        signature: name of the entry point, if it is one of a SavedModel.
        trusted: whether the user trusts the file: its calls then take any time.
    """

    name: str
    format: str
    path: Path | None
    sha256: str
    size_bytes: int | None = None
    notes: tuple[str, ...] = ()
    signature: str | None = None
    trusted: bool = False

    @classmethod
    def of_keras(cls, model: KerasModel, path: Path | None, notes: Sequence[str]) -> "Origin":
        """That of a Keras model, which was loaded from `path` if there is one."""
        return cls(
            name=path.stem if path else model.name,
            format="keras",
            path=path,
            sha256=path_sha256(path) if path else weights_sha256(model.weights),
            size_bytes=path_size(path) if path else None,
            notes=tuple(notes),
        )

    @property
    def limited(self) -> bool:
        """Whether calls have to end in some time: the model is from a file of anybody."""
        return self.path is not None and not self.trusted


@dataclass(frozen=True)
class Source:
    """A model as a function of TensorFlow tensors.

    Attributes:
        origin: the place it came from.
        inputs: its inputs in the order of its own signature; sizes that vary are None.
        outputs: its outputs in that order.
        call: the forward pass on TensorFlow tensors, inputs and outputs by name.
        marked: the forward pass traced with these inputs, the ops of each layer in a name scope of
            its own.
        layers: names of layers by those scopes; empty for a model without layers.
        variables: the weights that `call` reads (kept alive by this reference).
        marked_layers: a context in which `call` records those scopes; gives `layers`.
        siblings: the other entry points of the same SavedModel, each opened by a call; they share
            weights.
        loss: the loss that it was compiled with, see `hints.Loss`; None without one.
        known_hints: the hints, where they cannot be read off this source; None to read them.
        layout: the way from the arrays of the data to the inputs, and from the outputs back.
        keras_model: the model itself, if Keras 3 has opened it.
        sampled: inputs of a call as the data has them, if there are data.
        opened: the model before its first rewrite; None if it had none.
    """

    origin: Origin
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    call: Call
    marked: TracedFunction
    layers: Mapping[str, str]
    variables: tuple[Variable, ...]
    marked_layers: MarkedLayers = field(compare=False)
    siblings: Mapping[str, Callable[[], "Source"]] = field(default_factory=dict, compare=False)
    loss: Loss = field(default=None, compare=False, repr=False)
    known_hints: Mapping[str, OutputHint] | None = field(default=None, compare=False)
    layout: Layout = PLAIN
    keras_model: KerasModel | None = field(default=None, compare=False, repr=False)
    sampled: Batch | None = field(default=None, compare=False, repr=False)
    opened: "Source | None" = field(default=None, compare=False, repr=False)

    # The format that the model is a file of already, by name: none that is converted to.
    file_format: ClassVar[str | None] = None

    @property
    def name(self) -> str:
        """The model's name, from its origin."""
        return self.origin.name

    @classmethod
    def traced(
        cls,
        origin: Origin,
        inputs: tuple[TensorSpec, ...],
        call: Call,
        variables: Sequence[Variable],
        marked_layers: MarkedLayers = lambda: nullcontext({}),
        typed: bool = True,
    ) -> Self:
        """Traces `call` and reads the outputs off the trace.

        Args:
            origin: of the model.
            inputs: its inputs.
            call: the forward pass.
            variables: the weights.
            marked_layers: see the attributes.
            typed: whether the model or the data tell the dtypes of the inputs.

        Raises:
            ConversionError: the model's own code fails while it is traced, or an output has no
                fixed number of axes.
        """
        try:
            with marked_layers() as layers:
                marked, names = trace_call(call, inputs)
        except Exception as error:
            # Whatever a custom layer raises while it is traced is the user's to read.
            raise ConversionError(
                f"model {origin.name!r} cannot be traced with inputs {describe(inputs)} "
                f"({type(error).__name__}: {reason_of(error)})",
                way_to_trace(inputs, typed),
            ) from error
        outputs = tuple(
            TensorSpec(name, _static_shape(name, value), value.dtype.name)
            for name, value in zip(names, marked.outputs, strict=True)
        )
        origin = replace(
            origin,
            notes=tuple(dict.fromkeys(origin.notes + (_drawn_note(marked) or _kept_note(marked)))),
        )
        return cls(origin, inputs, outputs, call, marked, layers, tuple(variables), marked_layers)

    def rewritten(self, rewrite: Rewrite) -> Self:
        """The same model with a rewrite applied to every trace of it; see `inserted`."""

        def call(named: dict[str, Tensor]) -> dict[str, Tensor]:
            specs = [
                replace(spec, shape=tuple(named[spec.name].shape.as_list())) for spec in self.inputs
            ]
            traced, names = trace_call(self.call, specs)
            tensors = [named[spec.name] for spec in specs]
            outputs = inserted(Graph(traced, len(specs)), tensors, rewrite)
            return dict(zip(names, outputs, strict=True))

        changed = self.traced(self.origin, self.inputs, call, self.variables, self.marked_layers)
        return replace(changed, keras_model=self.keras_model, opened=self.opened or self)

    def filled(self) -> Self:
        """The same model for ONNX: without operations that this has no equal of."""
        return self.rewritten(fill) if lacks(self.marked, len(self.inputs)) else self

    @cached_property
    def hints(self) -> Mapping[str, OutputHint]:
        """What the model says of its outputs, by name; an output may be missing."""
        if self.known_hints is not None:
            return self.known_hints
        return traced_hints([spec.name for spec in self.outputs], self.marked, self.loss)

    @cached_property
    def nan_weights(self) -> str:
        """The weights that hold NaN, each with its layer, in words; "" where none does."""
        return _nan_weights(
            (getattr(one, "path", one.name.partition(":")[0]), _values(one))
            for one in self.variables
            if "float" in str(one.dtype)
        )

    @cached_property
    def graph(self) -> TracedFunction:
        """The forward pass traced with these inputs, its ops named as the model names them."""
        return trace_call(self.call, self.inputs)[0] if self.layers else self.marked

    def trace(self, batch_size: int) -> TracedFunction:
        """Like `graph`, with a number of samples for each input that leaves it open."""
        fixed = (
            self.layout.with_samples(spec, batch_size) if self.layout.any_samples(spec) else spec
            for spec in self.inputs
        )
        return trace_call(self.call, tuple(fixed))[0]

    def forward(self, batch: Batch) -> Batch:
        """Runs the model in float32 on arrays by input name; returns arrays by output name."""
        import tensorflow as tf

        tensors = [tf.constant(batch[spec.name], dtype=spec.dtype) for spec in self.inputs]
        samples = max((len(array) for array in batch.values() if array.ndim), default=1)
        with called_in_time(self.name, samples) if self.origin.limited else nullcontext():
            outputs = run_traced(self.marked, *tensors)
        names = (spec.name for spec in self.outputs)
        return {name: _array(value) for name, value in zip(names, outputs, strict=True)}


def _array(value: Tensor) -> np.ndarray:
    array = np.asarray(value)
    return texts(array) if array.dtype == object else array


@dataclass(frozen=True)
class OnnxSource:
    """A model that is an ONNX graph already.

    Attributes:
        origin: the place it came from.
        inputs: the graph's inputs; sizes that vary are None.
        outputs: the graph's outputs.
        model: the graph, which is never changed.
        forward: runs the model on arrays by input name; returns arrays by output name.
        layout: the way from the arrays of the data to the inputs, and from the outputs back.
        as_written: whether the graph is the file's own: nothing in it was mended, no size fixed.
    """

    origin: Origin
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    model: "ir.Model"
    forward: Callable[[Batch], Batch]
    layout: Layout = PLAIN
    as_written: bool = True

    # It is an FP32 file of this format itself.
    file_format: ClassVar[str | None] = "onnx"

    @property
    def name(self) -> str:
        """The model's name, from its origin."""
        return self.origin.name

    @cached_property
    def hints(self) -> Mapping[str, OutputHint]:
        """What the model says of its outputs, by name; an output may be missing."""
        return onnx_hints(self.model)

    @cached_property
    def nan_weights(self) -> str:
        """The weights that hold NaN, in words; "" where none does."""
        weights = {name: item.const_value for name, item in self.model.graph.initializers.items()}
        return _nan_weights(
            (name, value.numpy())
            for name, value in weights.items()
            if value is not None and value.dtype.is_floating_point()
        )


def _nan_weights(weights: Iterable[tuple[str, np.ndarray]]) -> str:
    told = []
    for name, array in weights:
        if array.size and np.isnan(array.min()):  # the least number of an array with NaN is NaN
            layer, slash, own = name.rpartition("/")
            count = f"{np.count_nonzero(np.isnan(array)):,} of {array.size:,} values"
            told.append(f"{own} of layer {layer!r} ({count})" if slash else f"{name} ({count})")
    return listed(told, _MOST_NAN)


AnySource = Source | OnnxSource


# TensorFlow's ops that draw other numbers in each run, by how they begin.
_RANDOM = re.compile("(Parameterized)?(Random|TruncatedNormal|Multinomial)")


def _drawn_note(graph: TracedFunction) -> tuple[str, ...]:
    """A note for the report on a model that draws random numbers; empty for any other model."""
    types = {operation.type for operation in graph.graph.get_operations()}
    drawn = ", ".join(sorted(filter(_RANDOM.match, types)))
    if not drawn:
        return ()
    return (
        f"draws random numbers ({drawn}), which differ from run to run: the drift holds that "
        "difference, too. Let the model take the numbers as an input to compare without it",
    )


def _kept_note(graph: TracedFunction) -> tuple[str, ...]:
    """A note on a model that keeps a state from call to call; empty for any other model."""
    from tensorflow.python.ops.op_selector import get_backward_walk_ops

    written = {op.inputs[0].name for op in graph.graph.get_operations() if writes(op.node_def)}
    read = get_backward_walk_ops([one.op for one in graph.outputs])  # a seed may go on for nothing
    captures = {id(outer): inner for outer, inner in graph.graph.captures}
    kept = {key for key, one in captures.items() if one.name in written and one.op in read}
    found = (v.name.partition(":")[0] for v in graph.graph.variables if id(v.handle) in kept)
    names = list(dict.fromkeys(found))  # states of one layer share a name
    if not names:
        return ()
    return (
        f"keeps a state from call to call ({listed(names, _MOST_KEPT)}), which a file cannot: each "
        "call of the file begins with the state that the model has now. Make the state an input "
        "and an output (return_state=True and initial_state=... in Keras), and name them with "
        "--state INPUT=OUTPUT",
    )


def trace_call(call: Call, inputs: Sequence[TensorSpec]) -> tuple[TracedFunction, tuple[str, ...]]:
    """Records `call` as a TensorFlow graph.

    Functions that Keras compiles with XLA stay opaque calls in a normal trace, which no exporter
    can read. While eager execution of functions is forced they are recorded inline.

    Returns:
        A `WrappedFunction` (flat input tensors in the order of `inputs`, a list of outputs) and
        the names of the outputs.
    """
    import tensorflow as tf

    output_names: list[str] = []

    def flat(*tensors: Tensor) -> list[Tensor]:
        outputs = call(dict(zip((spec.name for spec in inputs), tensors, strict=True)))
        output_names[:] = outputs
        return [tf.identity(_dense(value)) for value in outputs.values()]

    signature = [
        tf.TensorSpec(spec.shape, spec.dtype, name=f"tfmp_input_{i}")
        for i, spec in enumerate(inputs)
    ]
    eager_before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        return tf.compat.v1.wrap_function(flat, signature), tuple(output_names)
    finally:
        tf.config.run_functions_eagerly(eager_before)


# A longer reason is cut behind a sentence, or behind a word.
_REASON_CHARACTERS = 300


def reason_of(error: BaseException) -> str:
    """The innermost error in a text of Keras or AutoGraph, in whole sentences."""
    text = re.split("(?:Call a|A)rguments received by", one_line(error))[0]
    kinds = r"\b\w*(?:Error|Exception)(?: encountered(?: during \w+)?)?: "
    return shortened(re.split(kinds, text)[-1].strip())


def shortened(text: str) -> str:
    """The first sentences of a long text; a sentence that is too long ends behind a word."""
    if len(text) <= _REASON_CHARACTERS:
        return text
    cut = text[:_REASON_CHARACTERS]
    return cut.rpartition(". ")[0] or f"{cut.rpartition(' ')[0]} …"


def way_to_trace(inputs: Sequence[TensorSpec], typed: bool = True) -> str:
    """What to do where code fails while it is traced with these inputs; see `Source.traced`."""
    ways = ["make its call work for these inputs, in one structure (a tensor, list or dict)"]
    if any(None in spec.shape for spec in inputs):
        ways.insert(0, "fix sizes that vary with --batch or --input-shape (input_shapes={...})")
    if not typed:
        names = ", ".join(spec.name for spec in inputs)
        ways.insert(0, f"give data that have the dtypes of {names} (--data FILE or data=...)")
    told = ", or ".join(ways)
    return f"{told[0].upper()}{told[1:]}"


def _dense(value: TensorTree) -> Tensor:
    """A tensor; rows of any length are filled up with zeros to the longest."""
    import tensorflow as tf

    return value.to_tensor() if isinstance(value, tf.RaggedTensor) else value


def _static_shape(name: str, value: Tensor) -> tuple[int | None, ...]:
    if value.shape.rank is None:
        raise ConversionError(
            f"output {name!r} has no fixed number of axes, which a static file needs",
            "End the model with keras.layers.Reshape, or a function with tf.ensure_shape",
        )
    return tuple(value.shape)


def name_of(model: object) -> str:
    """The name that a live model goes by; TensorFlow keeps those of functions as bytes."""
    name = getattr(model, "__name__", None) or getattr(model, "name", "model")
    return name.decode() if isinstance(name, bytes) else str(name)


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, as hexadecimal text."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def path_sha256(path: Path) -> str:
    """SHA-256 of a file, or of the names and contents of all files in a folder."""
    if path.is_file():
        return file_sha256(path)
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")):
        if file.is_file():
            digest.update(f"{file.relative_to(path)}\0{file_sha256(file)}\n".encode())
    return digest.hexdigest()


def weights_sha256(variables: Iterable[Variable]) -> str:
    """SHA-256 of the shapes and values of a live model's weights; a process numbers their names."""
    digest = hashlib.sha256()
    for values in map(_values, variables):
        digest.update(f"{values.dtype}{values.shape}".encode())
        digest.update(values.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _values(variable: Variable) -> np.ndarray:
    """A variable's values in TensorFlow's own memory; `numpy()` would copy them."""
    return np.asarray(getattr(variable, "read_value", lambda: variable.value.read_value())())


def path_size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())

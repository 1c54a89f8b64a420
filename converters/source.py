"""Any model as a `Source`: its FP32 forward pass, its signature and where it came from.

Loading a Keras model here uses the TensorFlow backend: tracing for ONNX and TFLite needs
TensorFlow graphs, whatever backend the model was trained on.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tfmp.converters.errors import ConversionError, InputError
from tfmp.converters.tensors import Batch, TensorSpec, describe

KERAS_SUFFIXES = (".keras", ".h5", ".hdf5")


@dataclass(frozen=True)
class Source:
    """A model in float32, ready to be traced, run and compared with.

    Attributes:
        name: for reports and file names.
        inputs: in the order of the model's own signature; sizes that vary are None.
        outputs: likewise.
        call: the forward pass on TensorFlow tensors, inputs and outputs by name.
        graph: the forward pass traced with a dynamic batch axis (a `WrappedFunction`).
        variables: the weights that `call` reads (kept alive by this reference).
        path: the file it was loaded from, or None for a live model.
        sha256: of that file, or of the weights of a live model.
        notes: what was changed on the way in, for the report.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    call: Callable[[dict[str, Any]], dict[str, Any]]
    graph: Any
    variables: tuple[Any, ...]
    path: Path | None
    sha256: str
    notes: tuple[str, ...] = field(default=())

    def trace(self, batch_size: int) -> Any:
        """Like `graph`, with a fixed size for the first axis of every input."""
        fixed = tuple(replace(spec, shape=(batch_size, *spec.shape[1:])) for spec in self.inputs)
        return trace_call(self.call, fixed)[0]

    def forward(self, batch: Batch) -> Batch:
        """Runs the model in float32 on arrays by input name; returns arrays by output name."""
        import tensorflow as tf

        tensors = [tf.constant(batch[spec.name], dtype=spec.dtype) for spec in self.inputs]
        outputs = self.graph(*tensors)
        names = (spec.name for spec in self.outputs)
        return {name: np.asarray(value) for name, value in zip(names, outputs, strict=True)}


def open_source(model: Any) -> Source:
    """Turns a live Keras model, or the path of a saved one, into a `Source`.

    Args:
        model: a built `keras.Model`, or the path of a `.keras`, `.h5` or `.hdf5` file.

    Raises:
        InputError: the file is missing, unreadable or of an unknown kind, or the model has no
            known input shapes.
    """
    if isinstance(model, str | Path):
        path = Path(model)
        return _from_keras(_load(path), path)
    _require_tensorflow_backend()
    import keras

    if not isinstance(model, keras.Model):
        raise InputError(
            f"expected a Keras model or the path of one, received {type(model).__name__}. "
            f"Pass a built keras.Model, or a file ending in {', '.join(KERAS_SUFFIXES)}."
        )
    return _from_keras(model, None)


def _require_tensorflow_backend() -> None:
    import keras

    if keras.backend.backend() != "tensorflow":
        raise InputError(
            f"conversion traces the model with TensorFlow, but Keras runs on the "
            f"{keras.backend.backend()!r} backend. Save the model (`model.save('model.keras')`) "
            "and convert the file with KERAS_BACKEND=tensorflow set."
        )


def check_model_file(path: Path) -> None:
    """Refuses a path that cannot be a saved Keras model, without importing a framework."""
    if not path.exists():
        raise InputError(f"{path}: no such file. Check the path of the model.")
    if path.suffix.lower() not in KERAS_SUFFIXES:
        kind = "a folder" if path.is_dir() else f"suffix {path.suffix!r}"
        raise InputError(
            f"{path}: expected a model file ending in {', '.join(KERAS_SUFFIXES)}, received "
            f"{kind}. Save the model with `model.save('model.keras')`."
        )
    if path.is_dir():
        raise InputError(
            f"{path}: expected a model file, received a folder. Save the model with "
            "`model.save('model.keras')`."
        )
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}). Check its rights.") from error
    magic = b"PK\x03\x04" if path.suffix.lower() == ".keras" else b"\x89HDF\r\n\x1a\n"
    if not head.startswith(magic):
        found = "is empty" if not head else f"starts with {head!r}"
        raise InputError(
            f"{path}: not a {path.suffix} model: it {found}. It may be truncated or misnamed; "
            "save the model again."
        )


def _load(path: Path) -> Any:
    check_model_file(path)
    _require_tensorflow_backend()
    import keras

    try:
        return keras.models.load_model(
            path,
            custom_objects=_keras2_classes(),
            compile=False,
            safe_mode=True,
        )
    except Exception as error:
        # Keras raises every kind of exception here; its last line says what is wrong.
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(
            f"{path}: Keras cannot load this model ({type(error).__name__}: {reason[0][:300]}). "
            "If it uses custom classes, load it yourself and pass the live model to "
            "`tfmp.converters.convert`; if it is damaged, save it again."
        ) from error


def _keras2_classes() -> dict[str, Any]:
    """Layer classes that accept what Keras 2 wrote into H5 files and Keras 3 refuses."""
    import keras

    class DepthwiseConv2D(keras.layers.DepthwiseConv2D):
        def __init__(self, *args: Any, groups: int = 1, **kwargs: Any) -> None:
            # Keras 2 inherited `groups` from Conv2D and wrote it, always 1.
            if groups != 1:
                raise ValueError(f"DepthwiseConv2D with groups={groups} is not a Keras layer")
            super().__init__(*args, **kwargs)

    return {"DepthwiseConv2D": DepthwiseConv2D}


def trace_call(
    call: Callable[[dict[str, Any]], dict[str, Any]], inputs: Sequence[TensorSpec]
) -> tuple[Any, tuple[str, ...]]:
    """Records `call` as a TensorFlow graph.

    Functions that Keras compiles with XLA stay opaque calls in a normal trace, which no exporter
    can read. While eager execution of functions is forced they are recorded inline.

    Returns:
        A `WrappedFunction` (flat input tensors in the order of `inputs`, a list of outputs) and
        the names of the outputs.
    """
    import tensorflow as tf

    output_names: list[str] = []

    def flat(*tensors: Any) -> list[Any]:
        outputs = call(dict(zip((spec.name for spec in inputs), tensors, strict=True)))
        output_names[:] = outputs
        return [tf.identity(value) for value in outputs.values()]

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


def _from_keras(model: Any, path: Path | None) -> Source:
    import keras

    arguments = _input_structure(model)
    inputs = tuple(
        TensorSpec(name, tuple(spec.shape), _wide(spec.dtype))
        for name, spec in _named_leaves(arguments, lambda _, spec: spec.name)
    )
    declared = _declared_output_names(model)

    def output_name(index: int, _: Any) -> str:
        return declared[index] if index < len(declared) else f"output_{index}"

    def call(named: dict[str, Any]) -> dict[str, Any]:
        packed = keras.tree.pack_sequence_as(arguments, [named[spec.name] for spec in inputs])
        with _float32_policies(model):
            results = model(*packed, training=False)
        _restore_ranks(results, getattr(model, "outputs", None))
        return dict(_named_leaves(results, output_name, taken={spec.name for spec in inputs}))

    name = path.stem if path else model.name
    try:
        graph, output_names = trace_call(call, inputs)
    except Exception as error:
        # Whatever a custom layer raises while it is traced is the user's to read.
        raise ConversionError(
            f"model {name!r} cannot be traced with inputs {describe(inputs)} "
            f"({type(error).__name__}: {str(error).strip()[:500]}). Give it one input structure "
            "(a tensor, list or dict) and make its call work for any batch size."
        ) from error
    narrow = sorted({layer.dtype_policy.name for layer in _narrow_layers(model)})
    notes = ()
    if narrow:
        notes = (f"trained under {', '.join(narrow)}: converted in float32 from master weights",)
    return Source(
        name=name,
        inputs=inputs,
        outputs=tuple(
            TensorSpec(name, _static_shape(name, value), value.dtype.name)
            for name, value in zip(output_names, graph.outputs, strict=True)
        ),
        call=call,
        graph=graph,
        variables=tuple(model.variables),
        path=path,
        sha256=file_sha256(path) if path else _weights_sha256(model),
        notes=notes,
    )


def _restore_ranks(results: Any, declared: Any) -> None:
    """Gives traced outputs the shapes that Keras knows and TensorFlow's tracing lost."""
    import keras

    for value, spec in zip(keras.tree.flatten(results), declared or (), strict=False):
        if value.shape.rank is None:
            value.set_shape(spec.shape)


def _static_shape(name: str, value: Any) -> tuple[int | None, ...]:
    if value.shape.rank is None:
        raise ConversionError(
            f"output {name!r} has no fixed number of axes, which a static file needs. End the "
            "model with a layer that fixes it, such as keras.layers.Reshape."
        )
    return tuple(value.shape)


def _wide(dtype: Any) -> str:
    """The dtype an input has in the float32 model."""
    import keras

    name = keras.backend.standardize_dtype(dtype)
    return "float32" if name in ("float16", "bfloat16") else name


def _input_structure(model: Any) -> list[Any]:
    """The positional arguments of `model`: nested structures of `InputSpec` with names."""
    import keras
    from keras.src.export.export_utils import get_input_signature

    try:
        signature = list(get_input_signature(model))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"model {model.name!r} has no known input shapes: {str(error).splitlines()[0]} "
            "Call it once on a batch (`model(x)`) before converting."
        ) from error
    if isinstance(model, keras.Sequential) or hasattr(model, "_inputs_struct"):
        # An unnamed `keras.Input` has a tensor name that counts up; its layer's name is saved.
        names = iter([tensor._keras_history.operation.name for tensor in model.inputs])
        return keras.tree.map_structure(
            lambda spec: keras.InputSpec(shape=spec.shape, dtype=spec.dtype, name=next(names)),
            signature,
        )
    # A subclassed model records the shapes of its arguments as `x_shape`, `y_shape`, ...
    return [
        keras.tree.map_structure(
            lambda spec, key=key: keras.InputSpec(
                shape=spec.shape, dtype=spec.dtype, name=key.removesuffix("_shape")
            ),
            structure,
        )
        for key, structure in zip(model._build_shapes_dict, signature, strict=True)
    ]


def _declared_output_names(model: Any) -> list[str]:
    """Names of the layers that make the outputs; empty for a subclassed model."""
    import keras

    if isinstance(model, keras.Sequential):
        return [model.layers[-1].name]
    return list(getattr(model, "output_names", ()))


def _named_leaves(
    structure: Any, name_of: Callable[[int, Any], str], taken: Set[str] = frozenset()
) -> list[tuple[str, Any]]:
    """A unique name for each leaf: its key in a dict, else what `name_of(index, leaf)` says.

    ONNX allows no output the name of an input, so names in `taken` get the leaf's number too.
    """
    import keras

    leaves: dict[str, Any] = {}
    for index, (path, leaf) in enumerate(keras.tree.flatten_with_path(structure)):
        keys = [part for part in path if isinstance(part, str)]
        name = "/".join(keys) if keys else name_of(index, leaf)
        leaves[f"{name}_{index}" if name in leaves or name in taken else name] = leaf
    return list(leaves.items())


def _narrow_layers(model: Any) -> list[Any]:
    """Layers that compute in 16 bits and are not quantized."""
    return [
        layer
        for layer in model._flatten_layers()
        if layer.dtype_policy.quantization_mode is None and "float16" in layer.dtype_policy.name
    ]


@contextmanager
def _float32_policies(model: Any) -> Iterator[None]:
    """Computes in float32 inside, whatever policies the layers were trained under."""
    import keras

    before = [(layer, layer.dtype_policy) for layer in _narrow_layers(model)]
    for layer, _ in before:
        layer.dtype_policy = keras.DTypePolicy("float32")
    try:
        yield
    finally:
        for layer, policy in before:
            layer.dtype_policy = policy


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, as hexadecimal text."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _weights_sha256(model: Any) -> str:
    digest = hashlib.sha256()
    for variable in model.variables:
        digest.update(variable.path.encode())
        digest.update(np.ascontiguousarray(variable.numpy()).tobytes())
    return digest.hexdigest()

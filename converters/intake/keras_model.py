"""Live models of Keras 3 and Keras 2 as a `Source`."""

import sys
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeAlias

from numpy.typing import DTypeLike

from tfmp.converters.intake.float32 import float32_weights, in_float32, precision_note, replaced
from tfmp.converters.intake.hints import Loss
from tfmp.converters.intake.probing import with_integers
from tfmp.converters.intake.sizes import Sizes
from tfmp.converters.intake.source import Origin, Source
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.frameworks import KerasLayer, KerasModel
from tfmp.converters.shared.scopes import scope_names
from tfmp.converters.shared.tensors import Batch, TensorSpec, unique_name
from tfmp.shared.backend import Tensor, TensorTree
from tfmp.shared.wording import first_line

# A `keras.InputSpec` or `keras.KerasTensor`, and nested structures of them.
KerasSpec: TypeAlias = Any
KerasSpecs: TypeAlias = Any

# Where Keras 3's own operations are, which look its `add` up.
_OPERATIONS = "keras.src.backend.tensorflow.numpy"


def require_tensorflow_backend() -> None:
    """Raises `InputError` where Keras runs on another backend than TensorFlow."""
    import keras

    if keras.backend.backend() != "tensorflow":
        raise InputError(
            "conversion traces the model with TensorFlow, but Keras runs on the "
            f"{keras.backend.backend()!r} backend",
            "Pass the model itself to `convert` or `validate`, which let another process open it",
        )


def from_keras(
    model: KerasModel,
    sizes: Sizes,
    path: Path | None = None,
    loss: Loss = None,
) -> Source:
    """Opens a built Keras model.

    Args:
        model: the model.
        sizes: what is known of the inputs besides. A subclassed model records the shapes of one
            call, and no dtypes.
        path: the file that it was loaded from, if there is one.
        loss: the loss that the model was compiled with.
    """
    import keras

    arguments = _input_structure(model)
    inputs = tuple(
        TensorSpec(name, tuple(spec.shape), _wide(spec.dtype), getattr(spec, "alias", ""))
        for name, spec in _named_leaves(arguments, lambda _, spec: spec.name)
    )
    # A functional model declares its dtypes, a SavedModel and a function as well.
    declares = isinstance(model, keras.Function | keras.Sequential)
    takes_many = any(spec.shape[:1] == (None,) for spec in inputs)
    inputs = sizes.of(inputs if declares else sizes.untold(inputs))
    widened = float32_weights(model)
    variables = [*model.variables, *(wide for _, wide in widened)]
    declared = _declared_output_names(model)

    def output_name(index: int, _: Tensor) -> str:
        return declared[index] if index < len(declared) else f"output_{index}"

    def call(named: dict[str, Tensor]) -> dict[str, Tensor]:
        packed = keras.tree.pack_sequence_as(arguments, [named[spec.name] for spec in inputs])
        sums = _broadcast_sums() if takes_many else nullcontext()
        with in_float32(model, widened), _scoped(model), sums:
            results = model(*packed, training=False)
        _restore_ranks(keras.tree.flatten(results), getattr(model, "outputs", None))
        return dict(_named_leaves(results, output_name, taken={spec.name for spec in inputs}))

    origin = Origin.of_keras(model, path, precision_note(model))
    source = Source.traced(
        origin,
        inputs,
        call,
        variables,
        lambda: _marked(_layers_and_operations(model)),
        typed=declares or sizes.whole_numbers is not None,
    )
    if not declares:
        source = with_integers(source)
    return replace(source, loss=loss, keras_model=model)


def from_keras2(
    model: KerasModel,
    sizes: Sizes,
    path: Path | None = None,
    notes: tuple[str, ...] = (),
    loss: Loss = None,
) -> Source:
    """Opens a model of Keras 2.

    Args:
        model: the model.
        sizes: what is known of the inputs besides.
        path: the file that it was read from; None for a live model.
        notes: on how that file was read.
        loss: the loss that the model was compiled with.

    Raises:
        InputError: the shapes of the inputs are not known, or a live model is not in float32.
        ConversionError: a layer fails while it is traced.
    """
    import tensorflow as tf

    inside = getattr(model, "_nested_inputs", getattr(model, "inputs", None))
    # A subclassed model keeps the sizes of its first call.
    arguments = (inside,) if inside is not None else (model.save_spec() or ((),))[0]
    tensors = tf.nest.flatten(arguments)
    if not tensors:
        raise InputError(
            f"model {model.name!r} of Keras 2 does not tell the shapes of its inputs",
            "Call it once on a batch, before it is converted or saved",
        )
    for layer in model._flatten_layers(include_self=False):
        if path is not None and getattr(layer, "_could_use_gpu_kernel", False):
            layer._could_use_gpu_kernel = False  # exporters read loops, and no cells of cuDNN
        if path is None and layer.compute_dtype in ("float16", "bfloat16"):
            raise InputError(
                f"model {model.name!r}: its layer {layer.name!r} computes in "
                f"{layer.dtype_policy.name}",
                "Save it and pass the file, which is read in float32",
            )
    own = model.input_names or [f"input_{index + 1}" for index in range(len(tensors))]
    declared = zip(own, tensors, strict=True)
    inputs = sizes.of([TensorSpec(name, tuple(x.shape), x.dtype.name) for name, x in declared])

    def call(named: dict[str, Tensor]) -> dict[str, Tensor]:
        packed = tf.nest.pack_sequence_as(arguments, [named[spec.name] for spec in inputs])
        with scope_names(model._flatten_layers(), "_name"):
            results = tf.nest.flatten(model(*packed, training=False))
        _restore_ranks(results, tf.nest.flatten(model.outputs))
        given: dict[str, Tensor] = {}
        for index, value in enumerate(results):
            name = model.output_names[index] if model.output_names else f"output_{index + 1}"
            given[unique_name(name, {*named, *given})] = value
        return given

    origin = Origin.of_keras(model, path, notes)
    inner = dict.fromkeys(model._flatten_layers(include_self=False))
    source = Source.traced(origin, inputs, call, model.variables, lambda: _marked(inner))
    return replace(source, loss=loss)


def keras_forward(path: Path, policy: str) -> Callable[[Batch], TensorTree]:
    """The forward pass of a saved model under a dtype policy, compiled as `predict` compiles it.

    Args:
        path: of a file that this program has saved: its code is trusted.
        policy: of all layers that are not quantized.

    Returns:
        A function of arrays by input name.
    """
    import keras
    import tensorflow as tf

    model = keras.saving.load_model(path, compile=False, safe_mode=False)
    for layer in model._flatten_layers():
        if layer.dtype_policy.quantization_mode is None:
            layer.dtype_policy = keras.DTypePolicy(policy)
    arguments = _input_structure(model)
    names = [name for name, _ in _named_leaves(arguments, lambda _, spec: spec.name)]

    @tf.function(jit_compile=model.jit_compile)
    def call(*leaves: Tensor) -> TensorTree:
        with _scoped(model):
            return model(*keras.tree.pack_sequence_as(arguments, leaves), training=False)

    def forward(batch: Batch) -> TensorTree:
        results = call(*(tf.constant(batch[name]) for name in names))
        return keras.tree.map_structure(lambda tensor: tensor.numpy(), results)

    return forward


@contextmanager
def _marked(layers: Iterable[KerasLayer]) -> Iterator[dict[str, str]]:
    """Lets each of some layers put its ops into a name scope of its own; gives names by scope.

    Keras's own scopes cannot be told apart: TensorFlow numbers them, and `dense_1` is both the
    second use of `dense` and the first of `dense_1`.
    """
    import tensorflow as tf

    def scoped(call: Callable[..., TensorTree], scope: str) -> Callable[..., TensorTree]:
        @wraps(call)
        def wrapped(*args: object, **kwargs: object) -> TensorTree:
            with tf.name_scope(scope):
                return call(*args, **kwargs)

        return wrapped

    names, marked = {}, []
    for index, layer in enumerate(layers):
        if "call" not in vars(layer):
            scope = f"tfmp_layer_{index}"
            names[scope] = layer.name
            marked.append(layer)
            # Not setattr: Keras tracks what is set on a layer.
            vars(layer)["call"] = scoped(layer.call, scope)
    try:
        yield names
    finally:
        for layer in marked:
            del vars(layer)["call"]


def _scoped(model: KerasModel) -> AbstractContextManager[None]:
    """Lets TensorFlow call the model, whatever its layers are named."""
    return scope_names((model, *_layers_and_operations(model)), "name")


def _layers_and_operations(model: KerasModel) -> list[KerasLayer]:
    """All layers inside, and the calls of `keras.ops` that functional models hold beside them."""
    import keras

    found = dict.fromkeys(model._flatten_layers(include_self=False))
    for layer in model._flatten_layers():
        if isinstance(layer, keras.Function):
            found.update(dict.fromkeys(layer.operations))
    return list(found)


def _restore_ranks(results: list[Tensor], declared: list[KerasSpec] | None) -> None:
    """Gives traced outputs the shapes that Keras knows and TensorFlow's tracing lost."""
    for value, spec in zip(results, declared or (), strict=False):
        if value.shape.rank is None and spec is not None:
            value.set_shape(spec.shape)


def _wide(dtype: DTypeLike) -> str:
    """The dtype an input has in the float32 model."""
    import keras

    name = keras.backend.standardize_dtype(dtype)
    return "float32" if name in ("float16", "bfloat16", "float64") else name


def _input_structure(model: KerasModel) -> list[KerasSpecs]:
    """The positional arguments of `model`: nested structures of `InputSpec` with names."""
    import keras
    from keras.src.export.export_utils import _infer_input_signature_from_model, get_input_signature

    functional = isinstance(model, keras.Sequential) or hasattr(model, "_inputs_struct")
    try:
        # Keras asks for a call in this process, but a file records the shapes of calls before.
        recorded = None if functional else _infer_input_signature_from_model(model)
        signature = list(recorded or get_input_signature(model))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"model {model.name!r} has no known input shapes: {first_line(error)} "
            "Call it on a batch (`model(x)`) before saving it, or converting one in memory."
        ) from error
    if functional:
        # Keras's signature frees a batch that is fixed. An unnamed `keras.Input` has a tensor name
        # that counts up; its layer's name is saved.
        tensors = iter(model.inputs)

        def spec_of(_: KerasSpec) -> KerasSpec:
            tensor = next(tensors)
            name = tensor._keras_history.operation.name
            spec = keras.InputSpec(shape=tensor.shape, dtype=tensor.dtype, name=name)
            spec.alias = tensor.name
            return spec

        return keras.tree.map_structure(spec_of, signature)
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


def _declared_output_names(model: KerasModel) -> list[str]:
    """Names of the layers that make the outputs; empty for a subclassed model."""
    import keras

    if isinstance(model, keras.Sequential):
        return [model.layers[-1].name]
    return list(getattr(model, "output_names", ()))


def _named_leaves(
    structure: TensorTree, name_of: Callable[[int, Any], str], taken: Set[str] = frozenset()
) -> list[tuple[str, Tensor]]:
    """A unique name for each leaf: its key in a dict, else the result of `name_of(index, leaf)`.

    ONNX allows no output the name of an input, so names in `taken` get the leaf's number too.
    """
    import keras

    leaves: dict[str, Tensor] = {}
    for index, (path, leaf) in enumerate(keras.tree.flatten_with_path(structure)):
        keys = [part for part in path if isinstance(part, str)]
        name = "/".join(keys) if keys else name_of(index, leaf)
        leaves[f"{name}_{index}" if name in leaves or name in taken else name] = leaf
    return list(leaves.items())


def cut_behind(source: Source, path: str) -> str:
    """How to leave out the first layers of a model, as the end of a sentence; "" if unknown.

    Args:
        source: the model.
        path: of the layer, or of one inside it.
    """
    import keras

    layers = {layer.name: layer for layer in getattr(source.keras_model, "layers", ())}
    found = next((layers[name] for name in path.split("/") if name in layers), None)
    if isinstance(source.keras_model, keras.Sequential) and found is not None:
        place = list(layers.values()).index(found) + 1
        given = getattr(found, "output", None) if place < len(layers) else None
        if given is not None:
            start = f"keras.Input({tuple(given.shape[1:])}, dtype={given.dtype!r})"
            return f": keras.Sequential([{start}, *model.layers[{place}:]])"
    readers = [node.operation.name for node in getattr(found, "_outbound_nodes", ())]
    if len(readers) == 1 and readers[0] in layers:
        return f": keras.Model(model.get_layer({readers[0]!r}).input, model.outputs)"
    return _behind_texts(source)


def _behind_texts(source: Source) -> str:
    """How to take the part of a graph between the operations on texts; "" if there is none."""
    graph = (source.opened or source).marked
    ends = graph.inputs[: len(source.inputs)], graph.outputs
    given, wanted = ([x.name for x in some if x.dtype != "string"] for some in ends)
    before = [*given], [*wanted]
    for one in graph.graph.get_operations():
        first = next((x for x in one.inputs if x.dtype != "resource"), None)  # no table
        if first is not None and first.dtype == "string":
            given += [x.name for x in one.outputs if x.dtype != "string"]
        elif first is not None and any(x.dtype == "string" for x in one.outputs):
            wanted.append(first.name)
    if not given or not wanted or (given, wanted) == before:
        return ""
    model = "model" if source.origin.path is None else repr(str(source.origin.path))
    asked = f", signature={source.origin.signature!r}" if source.origin.signature else ""
    return (
        ". Take the part behind it in Python, and pass `model` to tfmp.converters.convert: `whole "
        f"= tfmp.converters.open_source({model}{asked}); model = whole.marked.prune({given}, "
        f"{wanted})`"
    )


def _broadcast_sums() -> AbstractContextManager[None]:
    """Broadcasts summands inside as NumPy does.

    Keras (3.15) takes a summand with one axis longer than 1 for a bias. In a batch of one sample,
    but not of open size, `x + y[:, :, None]` then adds y along the last axis of a square x.
    """
    numpy: Any = sys.modules.get(_OPERATIONS)
    if numpy is None:
        return nullcontext()
    keras_add = numpy.add

    def add(x1: Tensor, x2: Tensor) -> Tensor:
        import tensorflow as tf

        if not (tf.is_tensor(x1) and tf.is_tensor(x2)) or _adds_alike(x1, x2):
            return keras_add(x1, x2)
        dtype = numpy.dtypes.result_type(x1.dtype, x2.dtype)
        return tf.add(tf.cast(x1, dtype), tf.cast(x2, dtype))

    return replaced([(numpy, "add", add)])


def _adds_alike(x1: Tensor, x2: Tensor) -> bool:
    """Whether Keras adds x2 along the axis that NumPy adds it along."""
    if None in (x1.shape.rank, x2.shape.rank):
        return True
    # Counted from the end, as broadcasting does.
    long = [place - x2.shape.rank for place, size in enumerate(x2.shape) if size != 1]
    if len(long) != 1:
        return True
    if x1.shape[-1] == x2.shape[long[0]]:
        return long == [-1]
    return long == [1 - x1.shape.rank]

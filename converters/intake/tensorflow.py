"""SavedModel folders and `tf.function`s as a `Source`; Keras is not needed."""

import inspect
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tfmp.converters.intake.keras2 import hints_hidden
from tfmp.converters.intake.saved import (
    Inlined,
    VariableState,
    callables_of,
    signatures_of,
    tensors_of,
)
from tfmp.converters.intake.sizes import Opening, Sizes
from tfmp.converters.intake.source import (
    Origin,
    Source,
    name_of,
    path_sha256,
    path_size,
    reason_of,
    shortened,
    way_to_trace,
    weights_sha256,
)
from tfmp.converters.intake.trust import code_in_saved_model
from tfmp.converters.shared.errors import ConversionError, InputError
from tfmp.converters.shared.frameworks import TfFunction
from tfmp.converters.shared.layout import Layout, State
from tfmp.converters.shared.tensors import USUAL_SIGNATURES, TensorSpec, unique_name
from tfmp.converters.shared.time_limits import read_in_time
from tfmp.shared.atomic_file import temporary_folder
from tfmp.shared.backend import Tensor
from tfmp.shared.wording import first_line

if TYPE_CHECKING:
    import tensorflow as tf

Named = TypeVar("Named")


def from_saved_model(path: Path, asked: Opening) -> Source:
    """Loads one signature of a SavedModel; its `siblings` are the others, unless it was named.

    It is the only one if none was named, or "serving_default" or "serve" among several, or the
    first by name if all are wanted.

    Raises:
        InputError: the folder cannot be loaded, would do more than compute, or lacks the signature;
            the text lists all names.
    """
    import tensorflow as tf

    readable = path
    limit = nullcontext() if asked.unsafe_load else read_in_time(path, path_size(path))
    try:
        with limit, _readable(path, asked.unsafe_load) as readable, hints_hidden():
            loaded = tf.saved_model.load(str(readable))
    except InputError:
        raise
    except Exception as error:  # TensorFlow raises every kind of exception here
        text = shortened(first_line(error).replace(f"{readable}/", ""))
        raise InputError(
            f"TensorFlow cannot load this SavedModel ({type(error).__name__}: {text})",
            "Copy the whole folder again, variables included, or save the model again",
            where=path,
        ) from error
    signatures = dict(sorted(loaded.signatures.items()))
    functions = signatures or callables_of(loaded)
    if not functions:
        way = "Save it with signatures=..., or with an input_signature on its function"
        if hasattr(loaded, "prune"):  # a graph of TensorFlow 1
            loading = f"tf.saved_model.load({str(path)!r})"
            way = f"Pass {loading}.prune(['INPUT:0'], ['OUTPUT:0']) to tfmp.converters.convert"
        raise InputError(
            "this SavedModel has no signatures, and no function that takes tensors of known ranks",
            way,
            where=path,
        )
    any_of_them = len(functions) == 1 or (asked.all_signatures and bool(signatures))
    kind = "signature" if signatures else "function"
    name = _choose(path, asked.signature, functions, kind, any_of_them)
    notes = () if signatures else (f"has no signatures: its function {name!r} was taken",)
    origin = Origin(path.name, "savedmodel", path, path_sha256(path), path_size(path), notes)

    def opened(name: str, sizes: Sizes) -> Source:
        if signatures:
            _require_features(path, name, functions)
            _require_dense(path, functions[name])
        owner = replace(origin, signature=name)
        return _in_line(owner, functions[name], loaded, sizes, bool(signatures))

    usual = set(USUAL_SIGNATURES)  # Keras 3 writes one under two names
    others = [key for key in signatures if key != name and not {key, name} <= usual]
    if asked.signature is not None or not others:
        return opened(name, asked)
    siblings = {
        key: partial(opened, key, asked.within(signatures[key]._arg_keywords)) for key in others
    }
    return replace(opened(name, asked), siblings=siblings)


def _choose(
    path: Path, asked: str | None, functions: Mapping[str, TfFunction], kind: str, first: bool
) -> str:
    """The function that was asked for, the usual one, or the first if any will do."""
    usual = [name for name in USUAL_SIGNATURES if name in functions] or [*functions][:first]
    if asked in functions or (asked is None and usual):
        return asked or usual[0]
    lacks = f"no usual {kind}" if asked is None else f"no {kind} {asked!r}"
    raise InputError(
        f"this SavedModel has {lacks}; its {kind}s: {signatures_of(functions)}",
        "Choose one with --signature",
        where=path,
    )


def _require_features(path: Path, name: str, functions: Mapping[str, TfFunction]) -> None:
    """Raises `InputError` for a signature of texts (`tf.Example`) beside others of tensors."""
    on_tensors = [key for key, function in functions.items() if not _parses(function)]
    if on_tensors and name not in on_tensors:
        raise InputError(
            f"signature {name!r} parses texts (tf.Example), which no format can",
            f"Choose one that takes tensors with --signature: {', '.join(map(repr, on_tensors))}",
            where=path,
        )


def _parses(function: TfFunction) -> bool:
    """Whether a function makes features of texts, as those of Estimators do."""
    kinds = {one.type for one in function.graph.get_operations()}
    fed = any(value.dtype == "string" for value in function.inputs)
    return fed and any(kind.startswith("ParseExample") for kind in kinds)


def _require_dense(path: Path, function: TfFunction) -> None:
    """Raises `InputError` where a signature takes or gives a tensor that is not dense."""
    for name, spec in function.structured_outputs.items():
        if (kind := _kind(spec)) is not None:
            raise InputError(
                f"output {name!r} is {kind}, which neither ONNX nor TFLite knows",
                "Give a padded tensor (to_tensor() of a RaggedTensor, tf.sparse.to_dense) instead",
                where=path,
            )
    written = (path / "saved_model.pb").read_bytes()
    parts = function.structured_input_signature[1]  # of x they are x, x_1, and may be x_2
    for name in parts if any(word in written for word in _NOT_DENSE) else ():
        if f"{name}_1" in parts:
            raise InputError(
                f"input {name!r} is ragged or sparse, which neither ONNX nor TFLite knows",
                f"Save the model with a signature that takes {_PADDED}",
                where=path,
            )


_NOT_DENSE = (b"RaggedTensorSpec", b"SparseTensorSpec")
_PADDED = (
    "a padded tensor, and make it ragged or sparse inside (tf.RaggedTensor.from_tensor, "
    "tf.sparse.from_dense)"
)


@contextmanager
def _readable(path: Path, unsafe_load: bool) -> Iterator[Path]:
    """A view of the folder that can be loaded: without optimizer slots.

    Keras 2 wrote its optimizer's slot variables; TensorFlow now restores the optimizer as a plain
    object, which cannot hold them. Inference does not need them.
    """
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((path / "saved_model.pb").read_bytes())
    if not unsafe_load and (reason := code_in_saved_model(saved)) is not None:
        raise InputError(reason.at(path))
    slotted = [
        node
        for graph in saved.meta_graphs
        for node in graph.object_graph_def.nodes
        if node.slot_variables
    ]
    if not slotted:
        yield path
        return
    for node in slotted:
        node.ClearField("slot_variables")
    with temporary_folder() as folder:
        for entry in path.iterdir():
            if entry.name not in ("saved_model.pb", "fingerprint.pb"):
                os.symlink(entry.resolve(), folder / entry.name)
        (folder / "saved_model.pb").write_bytes(saved.SerializeToString())
        yield folder


def from_function(function: TfFunction, sizes: Sizes) -> Source:
    """Opens a `tf.function` with an input signature, or a concrete function.

    Raises:
        InputError: it has no input signature, so its shapes are unknown.
        ConversionError: its code fails while it is traced.
    """
    name = name_of(function)
    try:
        concrete = _at_sizes(function, sizes) if _is_polymorphic(function) else function
    except InputError:
        raise
    except Exception as error:
        if getattr(function, "input_signature", None) is not None:
            raise ConversionError(
                f"tf.function {name!r} cannot be traced with its input signature "
                f"({type(error).__name__}: {reason_of(error)})",
                way_to_trace(_declared(function, sizes)),
            ) from error
        raise InputError(
            f"tf.function {name!r} has no known input shapes",
            "Give it an input_signature, or pass "
            "`function.get_concrete_function(tf.TensorSpec(...))`",
        ) from error
    _require_tensors(name, concrete)
    origin = Origin(name, "tf.function", None, weights_sha256(concrete.variables))
    return _in_line(origin, concrete, concrete, sizes)


def _declared(function: TfFunction, sizes: Sizes) -> list[TensorSpec]:
    """The dense inputs that a `tf.function` names in its input signature."""
    import tensorflow as tf

    parameters = inspect.signature(function.python_function).parameters
    leaves = [
        spec if spec.name or spec is not argument else tf.TensorSpec(spec.shape, spec.dtype, name)
        for name, argument in zip(parameters, function.input_signature, strict=False)
        for spec in tf.nest.flatten(argument)
        if isinstance(spec, tf.TensorSpec)
    ]
    named = zip(_names_of(leaves), leaves, strict=True)
    return [_spec(name, leaf, sizes) for name, leaf in named]


def _at_sizes(function: TfFunction, sizes: Sizes) -> TfFunction:
    """The concrete function; its code is traced with the sizes that are given, if there are any."""
    import tensorflow as tf

    signature = function.input_signature
    leaves = tf.nest.flatten(signature)
    dense = all(isinstance(leaf, tf.TensorSpec) for leaf in leaves)
    if signature is None or not dense or not (sizes.shapes or sizes.batch_size):
        return function.get_concrete_function()
    fixed = sizes.of(_declared(function, sizes))
    specs = [tf.TensorSpec(spec.shape, spec.dtype, spec.name) for spec in fixed]
    packed = tf.nest.pack_sequence_as(signature, specs)
    return tf.function(function.python_function, input_signature=packed).get_concrete_function()


def _in_line(
    origin: Origin, function: TfFunction, loaded: object, sizes: Sizes, signature: bool = False
) -> Source:
    """A concrete function without calls, which no exporter looks into; states become arguments.

    `loaded` owns its variables. A `signature` of a SavedModel names its arguments.
    """
    import tensorflow as tf

    body = Inlined(function)
    tensors = {tensor.name.partition(":")[0]: tensor for tensor in function.inputs}
    keywords = function._arg_keywords if signature else _names_of(tensors_of(function))
    names = dict(zip(body.arguments, keywords, strict=True))
    inputs = {name: _spec(name, tensors[inside], sizes) for inside, name in names.items()}
    structure = function.structured_outputs
    told = tf.nest.flatten(structure, expand_composites=True)
    in_order = _sorted if signature else dict

    def results(values: Iterable[Any]) -> dict[str, Any]:
        """The results by their names, without those that are None."""
        given = iter(values)
        leaves = [next(given) if leaf is not None else None for leaf in told]
        packed = tf.nest.pack_sequence_as(structure, leaves, expand_composites=True)
        return in_order({n: one for n, one in _results(packed).items() if one is not None})

    taken = {*inputs, *results(leaf for leaf in told if leaf is not None)}
    states = {unique_name(state.spec.name, taken): state for state in body.states}
    own = [replace(state.spec, name=name) for name, state in states.items()]
    specs = sizes.of([*in_order(inputs).values(), *own])

    def call(named: dict[str, Tensor]) -> dict[str, Tensor]:
        # `loaded` owns the variables; without this reference they would be freed.
        assert loaded is not None
        arguments = {inside: named[name] for inside, name in names.items()}
        found, newest = body(arguments, [named[name] for name in states])
        outputs = _apart(results(found), named)
        written = (f"{state.spec.name}/next" for state in body.states)
        return {**outputs, **dict(zip(written, newest, strict=True))}

    origin = replace(origin, notes=(*origin.notes, *body.notes))
    source = Source.traced(origin, specs, call, body.variables)
    return _carrying(source, states) if states else source


def _carrying(source: Source, states: Mapping[str, VariableState]) -> Source:
    """The source of a function with states, which says so."""
    carried = {
        name: State(f"{state.spec.name}/next", state.value if state.value.any() else None)
        for name, state in states.items()
    }
    zeros = all(state.start is None for state in carried.values())
    note = (
        "keeps states between calls, which are inputs and outputs of the files: "
        f"{', '.join(carried)}. Start with {'zeros' if zeros else 'the values in the SavedModel'} "
        "and feed back what each call gives as NAME/next"
    )
    origin = replace(source.origin, notes=(*source.origin.notes, note))
    return replace(source, origin=origin, layout=Layout(states=carried))


def _require_tensors(name: str, function: TfFunction) -> None:
    """Raises `InputError` where a function takes a tensor that is not dense."""
    import tensorflow as tf

    for spec in tf.nest.flatten(function.structured_input_signature):
        if (kind := _kind(spec)) is not None:
            raise InputError(
                f"tf.function {name!r} takes a {kind} tensor, which neither ONNX nor TFLite knows",
                f"Let it take {_PADDED}",
            )


def _kind(spec: object) -> str | None:
    """The kind of a tensor that is not dense, such as "ragged"; None for a dense one."""
    import tensorflow as tf

    if isinstance(spec, tf.TensorSpec) or not isinstance(spec, tf.TypeSpec):
        return None
    return type(spec).__name__.removesuffix("TensorSpec").lower()


def _names_of(leaves: "Sequence[tf.TensorSpec]") -> list[str]:
    """A name for each argument: its own if it has one, with a number if another has it, too."""
    names: list[str] = []
    for index, leaf in enumerate(leaves):
        names.append(unique_name(leaf.name or f"input_{index}", set(names)))
    return names


def _results(results: Any) -> dict[str, Any]:
    """The results of a function by name; those without names are numbered."""
    import tensorflow as tf

    if isinstance(results, dict):
        return results
    return {f"output_{i}": value for i, value in enumerate(tf.nest.flatten(results))}


def is_function(value: object) -> bool:
    """Whether `value` is a `tf.function` or a concrete function."""
    return _is_polymorphic(value) or hasattr(value, "structured_input_signature")


def _is_polymorphic(value: object) -> bool:
    return hasattr(value, "get_concrete_function") and hasattr(value, "python_function")


def _spec(name: str, spec: "tf.TensorSpec", sizes: Sizes) -> TensorSpec:
    shape = sizes.whole(name) if spec.shape.rank is None else spec.shape
    return TensorSpec(name, tuple(shape), spec.dtype.name)


def _sorted(named: dict[str, Named]) -> dict[str, Named]:
    """In the order of their names, "output_2" before "output_10".

    A SavedModel keeps the names in a map, which gives them in another order in each process.
    """

    def numbers_by_value(name: str) -> list[str | int]:
        return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]

    return {name: named[name] for name in sorted(named, key=numbers_by_value)}


def _apart(outputs: dict[str, Tensor], inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Outputs by names that no input has, as ONNX asks."""
    return {unique_name(name, inputs.keys()): value for name, value in outputs.items()}

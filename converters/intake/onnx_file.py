"""ONNX files from anywhere, which need no export."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

from tfmp.converters.intake.sizes import Opening, Sizes
from tfmp.converters.intake.source import OnnxSource, Origin, path_sha256, path_size
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.files import check_no_pointer
from tfmp.converters.shared.frameworks import OrtSession
from tfmp.converters.shared.layout import Layout
from tfmp.converters.shared.onnx_files import NO_MAP
from tfmp.converters.shared.sessions import cpu_session, holds, read_onnx
from tfmp.converters.shared.tensors import (
    TEXT,
    Batch,
    TensorSpec,
    in_dtype,
)
from tfmp.converters.shared.time_limits import called_in_time
from tfmp.shared.wording import first_line, listed

# Runs a model: output names and arrays by input name, to arrays.
_Run = Callable[[Sequence[str], Batch], list[np.ndarray]]


def from_onnx(path: Path, asked: Opening) -> OnnxSource:
    """Loads an ONNX file and fixes the sizes of inputs that are asked for.

    Axes of samples that the file tells need not be given.

    Raises:
        InputError: ONNX Runtime refuses the file, or a shape contradicts the model's.
    """
    model = None
    try:
        model = read_onnx(path, mapped=False)
        _check_places(path, model)
        session = _session(path, model)
        written = [*model.graph.all_nodes()]
        _type_foreign(path, model)
        model.graph.sort()  # ONNX Runtime takes nodes in any order
    except InputError:
        raise
    except Exception as error:  # protobuf, onnx-ir and ONNX Runtime each raise their own
        way = "It may be truncated: copy or export it again"
        if model is not None:
            _refuse_unknown(path, model)
            way = "Mend what is named there, or export the model again with all of its files"
        found = f"not a usable ONNX model ({first_line(error)})"
        raise InputError(found, way, where=path) from error
    if not model.graph.outputs:
        raise InputError("has no outputs to compute", "Export the model again", where=path)
    run = _run_in_time(path, session, asked.unsafe_load)
    _open_negative_sizes(model)
    supplied = {value.name for value in session.get_inputs()}
    values = [value for value in model.graph.inputs if value.name in supplied]
    untold = _with_shapes(model, values, asked)
    declared = [value_spec(value) for value in values]
    told = Layout(_sample_axes(values, model.graph.outputs))
    inputs = asked.of(declared, told)
    for value, spec in zip(values, inputs, strict=True):
        value.shape = ir.Shape(
            own if size is None else size
            for own, size in zip(value.shape or (), spec.shape, strict=True)
        )
    mended = _open_shared_sizes(model, values) or written != [*model.graph.all_nodes()]
    outputs = tuple(value_spec(value) for value in model.graph.outputs)

    def forward(batch: Batch) -> Batch:
        names = [spec.name for spec in outputs]
        fed = {spec.name: in_dtype(batch[spec.name], spec.dtype) for spec in inputs}
        return dict(zip(names, run(names, fed), strict=True))

    notes = {NO_MAP for node in written if node.doc_string == NO_MAP}
    facts = path_sha256(path), path_size(path)
    origin = Origin(path.stem, "onnx", path, *facts, notes=tuple(notes))
    layout = asked.layout(told, inputs, outputs)
    mended |= untold or [spec.shape for spec in inputs] != [spec.shape for spec in declared]
    return OnnxSource(origin, inputs, outputs, model, forward, layout, as_written=not mended)


# Operators of ONNX Runtime's own, which `onnx` has no list of.
_RUNTIME_DOMAINS = ("com.microsoft", "com.microsoft.nchwc", "com.microsoft.experimental")
# Unknown operators that a message names.
_MOST_UNKNOWN = 3


def _refuse_unknown(path: Path, model: ir.Model) -> None:
    """Raises `InputError` where a file that cannot be loaded has operators that ONNX lacks."""
    unknown = [node for node in _foreign(model) if node.domain not in _RUNTIME_DOMAINS]
    opset = f"opset {model.opset_imports.get('', 1)}"
    foreign = dict.fromkeys(f"{node.op_type} of {node.domain or opset}" for node in unknown)
    if foreign:
        named = listed([*foreign], _MOST_UNKNOWN)
        raise InputError(
            f"computes with {named}, which ONNX Runtime does not have",
            "Export the model with ONNX's own operators, or cut it before that one "
            "(onnx.utils.extract_model with check_model=False)",
            where=path,
        )


def _foreign(model: ir.Model) -> list[ir.Node]:
    """The nodes whose operators ONNX lacks."""
    opsets, own = model.opset_imports, {(domain, name) for domain, name, _ in model.functions}
    return [
        node
        for node in model.graph.all_nodes()
        if (node.domain, node.op_type) not in own
        and not onnx.defs.has(node.op_type, opsets.get(node.domain, 1), node.domain)
    ]


def _type_foreign(path: Path, model: ir.Model) -> None:
    """Types of what operators make that ONNX lacks: ONNX Runtime has them, and infers types."""
    made = {
        str(x.name): x
        for node in _foreign(model)
        for x in node.outputs
        if node.graph is model.graph
    }
    made = {name: value for name, value in made.items() if name and value.dtype is None}
    if not made:
        return
    proto = onnx.load(path, load_external_data=False)
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made)
    for found in cpu_session(proto.SerializeToString(), folder=path.parent).get_outputs():
        if found.name in made and found.type.startswith("tensor("):
            kind = found.type.removeprefix("tensor(").removesuffix(")")
            made[found.name].dtype = ir.DataType[kind.upper()]


# ONNX Runtime has hardly any kernels of older operators, whose attributes had other types, too.
_OLDEST_OPSET = 7


def _session(path: Path, model: ir.Model) -> OrtSession:
    try:
        return cpu_session(path)
    except Exception as error:  # ONNX Runtime's exceptions share no base class
        if holds(model, "BFLOAT16"):
            raise InputError(
                "computes in bfloat16, for which ONNX Runtime's CPU provider has no "
                "kernels, so it is no reference",
                "Name the float32 model that it was made from",
                where=path,
            ) from error
        opset = model.opset_imports.get("", _OLDEST_OPSET)
        if opset >= _OLDEST_OPSET:
            raise
        raise InputError(
            f"is of opset {opset}, and ONNX Runtime does not run it ({first_line(error)})",
            "Bring it to a later opset first: onnx.version_converter.convert_version(model, 13)",
            where=path,
        ) from error


def _check_places(path: Path, model: ir.Model) -> None:
    """Raises `InputError` for weights in another folder, whatever ONNX Runtime thinks of them."""
    tensors = [one.const_value for graph in model.graphs() for one in graph.initializers.values()]
    for node in model.graph.all_nodes():
        held = (one for one in node.attributes.values() if one.type is ir.AttributeType.TENSOR)
        tensors += [one.as_tensor() for one in held]
    for tensor in tensors:
        if isinstance(tensor, ir.ExternalTensor):
            place = PurePosixPath(str(tensor.location).replace("\\", "/"))
            if place.is_absolute() or ".." in place.parts or PureWindowsPath(place).drive:
                raise InputError(
                    f"reads weights from {str(tensor.location)!r}, which is outside of its folder",
                    "Put them beside the model, and name that file in it",
                    where=path,
                )
            _check_links(path, path.parent / place)


def _check_links(path: Path, weights: Path) -> None:
    """Raises `InputError` for weights that ONNX and ONNX Runtime refuse because of links."""
    if not weights.exists():
        way = f"Put {weights.name} beside it: an export writes both files"
        raise InputError(f"its weights are in {weights.name!r}, which is missing", way, where=path)
    check_no_pointer(weights)
    inside = weights.resolve().parent.is_relative_to(path.parent.resolve())
    if not inside or weights.stat().st_nlink > 1:
        raise InputError(
            f"reads weights from {weights.name!r}, which is a link: any file may be behind it",
            "Copy the model and its weights into a folder of their own (cp -L), and convert the "
            "copy",
            where=path,
        )


def _run_in_time(path: Path, session: OrtSession, trusted: bool) -> _Run:
    """The session's `run`, which ends in time unless the model is trusted.

    A run that fails is tried without reuse of buffers, as a file with false names of sizes needs.
    """
    sessions = [session]

    def run(names: Sequence[str], batch: Batch) -> list[np.ndarray]:
        samples = max((len(array) for array in batch.values() if array.ndim), default=1)
        with nullcontext() if trusted else called_in_time(path.stem, samples):
            try:
                return sessions[-1].run(names, batch)
            except Exception:  # ONNX Runtime's exceptions share no base class
                if len(sessions) > 1:
                    raise
                plain = cpu_session(path, reuse=False)
                found = plain.run(names, batch)
                sessions.append(plain)
                return found

    return run


def _with_shapes(model: ir.Model, inputs: Sequence[ir.Value], sizes: Sizes) -> bool:
    """Sets shapes that the file lacks, of inputs as they were given; whether there were any."""
    untold = [value for value in inputs if value.shape is None]
    for value in untold:
        value.shape = ir.Shape(sizes.whole(str(value.name)))
    if any(value.shape is None for value in model.graph.outputs):
        ShapeInferencePass()(model)
        return True
    return bool(untold)


def _open_negative_sizes(model: ir.Model) -> None:
    """Makes sizes that vary of those that are written as -1, as PaddlePaddle does."""
    values = (*model.graph.inputs, *_made(model))
    _open(values, lambda size: isinstance(size, int) and size < 0)


def _open_shared_sizes(model: ir.Model, inputs: Sequence[ir.Value]) -> bool:
    """Takes away names of sizes of inner values and outputs; of outputs but for the samples'.

    Files get them wrong, and a runtime that trusts one reuses a buffer of another size and ends in
    an error: a super-resolution model whose output is declared with its input's height and width,
    or a detector with one name for the numbers of boxes of three outputs. The inputs tell the true
    ones. Returns whether an output shared one.
    """
    samples = {_name(value.shape[0]) for value in inputs if value.shape}
    ends = [*inputs, *model.graph.outputs]
    names = Counter(_name(size) for value in ends for size in value.shape or ())
    outer = {_name(size) for value in model.graph.outputs for size in value.shape or ()}
    inner = (value for value in _made(model) if not value.is_graph_output())
    _open(inner, lambda size: _name(size) is not None)
    _open(model.graph.outputs, lambda size: _name(size) not in samples | {None})
    return any(names[name] > 1 for name in outer - samples - {None})


def _name(size: object) -> str | None:
    """The name of a size that varies."""
    return size.value if isinstance(size, ir.SymbolicDim) else None


def _made(model: ir.Model) -> list[ir.Value]:
    """The values that nodes make, and the outputs."""
    made = (value for node in model.graph.all_nodes() for value in node.outputs)
    return [*made, *model.graph.outputs]


def _open(values: Iterable[ir.Value], which: Callable[[object], bool]) -> None:
    """Leaves sizes open, without a name."""
    for value in values:
        if any(which(size) for size in value.shape or ()):
            value.shape = ir.Shape(None if which(size) else size for size in value.shape or ())


def _sample_axes(inputs: Sequence[ir.Value], outputs: Sequence[ir.Value]) -> dict[str, int]:
    """The axis of the samples, by the name of an input or output whose first axis has another size.

    The file says it by the name of that size, which is the first one of other inputs; or it is the
    only size that is open, where all other inputs are open at their first.
    """
    shapes = {str(value.name): list(value.shape or ()) for value in (*inputs, *outputs)}
    firsts = [shapes[str(value.name)][0] for value in inputs if value.shape]
    symbols = {_name(size) for size in firsts} - {None}
    axes = {}
    for name, shape in shapes.items():
        named = [axis for axis, size in enumerate(shape) if _name(size) in symbols]
        if len(named) == 1:
            axes[name] = named[0]
        elif not named and shape and isinstance(shape[0], int) and shape[0] > 1:
            open_sizes = [axis for axis, size in enumerate(shape) if not isinstance(size, int)]
            if len(open_sizes) == 1 and any(not isinstance(size, int) for size in firsts):
                axes[name] = open_sizes[0]
    return {name: axis for name, axis in axes.items() if axis}


def value_spec(value: ir.Value) -> TensorSpec:
    """Name, shape (None where a size is open) and dtype of an input or output of the graph.

    Raises:
        InputError: the file declares no shape or type for it.
    """
    if value.shape is None or value.dtype is None:
        raise InputError(
            f"{value.name!r} has no shape or type in the ONNX file, and its operators tell none",
            "Export the model again with typed inputs and outputs",
        )
    shape = tuple(size if isinstance(size, int) else None for size in value.shape)
    dtype = TEXT if value.dtype is ir.DataType.STRING else value.dtype.numpy().name
    return TensorSpec(str(value.name), shape, dtype)

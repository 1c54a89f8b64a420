"""Exports a `Source` to a float32 ONNX model, and checks that it is right.

Weights never pass through TensorFlow constants or protobuf: large ones enter the graph as inputs,
travel beside it as NumPy arrays and become initializers at the end. So the cost of conversion
grows with the number of nodes and not with the size of the model.
"""

import logging
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from logging.handlers import BufferingHandler
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from tfmp.converters.intake import (
    FILLINGS,
    AnySource,
    Float64Model,
    OnnxSource,
    Source,
    cut_behind,
    probe,
)
from tfmp.converters.onnx.export.declared import without_false_sizes
from tfmp.converters.onnx.export.deterministic_tf2onnx import reproducible
from tfmp.converters.onnx.export.folding import fold_weights
from tfmp.converters.onnx.export.freeze import UNFED, FrozenGraph, freeze
from tfmp.converters.onnx.export.layers import layer_of, name_layers, with_layers
from tfmp.converters.onnx.export.loop_states import release_constant_states
from tfmp.converters.onnx.graph import PRODUCTS, Run, light_proto, open_once
from tfmp.converters.shared.errors import ConversionError, InputError, missing_kernel
from tfmp.converters.shared.frameworks import GraphDef
from tfmp.converters.shared.tensors import TEXT, Batch, describe, relative_l2
from tfmp.shared.progress import SILENT, Progress
from tfmp.shared.wording import first_line, listed

if TYPE_CHECKING:
    from tf2onnx.graph import Graph

# The newest that tf2onnx targets itself; ONNX's version converter goes on from there. 23 is the
# newest of the oldest ONNX Runtime that the dependencies admit.
DEFAULT_OPSET = _TF2ONNX_OPSET = 18
OPSETS = range(13, 24)


def check_opset(opset: int) -> None:
    """Raises `InputError` unless models can be written at this opset."""
    if opset not in OPSETS:
        raise InputError(
            f"opset: expected a number from {OPSETS[0]} to {OPSETS[-1]}, received {opset!r}."
        )


def to_opset(model: ir.Model, opset: int | None) -> ir.Model:
    """An ONNX model at another opset; the model itself if the opset is None or its own.

    Raises:
        InputError: the opset is not supported.
        ConversionError: ONNX has no rule for an op of the model.
    """
    if opset is None or opset == model.opset_imports.get(""):
        return model
    check_opset(opset)
    if model.functions:  # ONNX's converter leaves calls of functions behind, without these
        InlinePass()(model)
    layers = {
        node.name: node.metadata_props.get("tfmp.layer", "") for node in model.graph.all_nodes()
    }
    try:
        proto = onnx.version_converter.convert_version(light_proto(model), opset)
    except Exception as error:  # ONNX's C++ exceptions share no base class
        raise ConversionError(
            f"the model cannot be brought to opset {opset} ({first_line(error)})",
            "Leave --opset out to keep its own",
        ) from error
    opsets = proto.opset_import
    proto.ir_version = onnx.helper.find_min_ir_version_for(opsets, ignore_unknown=True)
    converted = ir.from_proto(proto)
    weights = {
        name: value.const_value.numpy()
        for name, value in model.graph.initializers.items()
        if value.const_value is not None and name not in converted.graph.initializers
    }
    _attach_weights(converted, weights)
    for node in converted.graph.all_nodes():
        node.metadata_props["tfmp.layer"] = layers.get(node.name, "")
    return converted


def with_rewrites(model: ir.Model) -> ir.Model:
    """A model at an opset that the rewrites for FP16 know: its own, or else the default one.

    A model with an op that ONNX has no rule for stays as it is.
    """
    if model.opset_imports.get("", OPSETS[0]) >= OPSETS[0]:
        return model
    try:
        return to_opset(model, DEFAULT_OPSET)
    except ConversionError:
        return model


def export_onnx(
    source: AnySource, opset: int | None = None, progress: Progress = SILENT
) -> ir.Model:
    """Exports the float32 forward pass of `source`.

    Args:
        source: the model; its inputs and outputs keep their names, order, shapes and dtypes. An
            ONNX graph is copied.
        opset: version of the ONNX operator set to target; None for `DEFAULT_OPSET`.
        progress: told of the stages.

    Returns:
        A model whose every node is in an ONNX domain and whose inputs are exactly the source's.
        Each node's metadata has the Keras layer it came from, as "tfmp.layer".

    Raises:
        ConversionError: an op has no ONNX form, or the graph has other inputs than the model.
    """
    if isinstance(source, OnnxSource):
        own = _with_weights_inside(source.model.clone())
        return to_opset(without_false_sizes(own, source.origin.path), opset)
    opset = DEFAULT_OPSET if opset is None else opset
    check_opset(opset)
    progress("tracing")
    traced = freeze(source.filled())
    progress("converting to ONNX")
    proto = _convert(traced, source, opset)
    progress("attaching weights")
    model = ir.from_proto(proto)
    _attach_weights(model, traced.weights)
    release_constant_states(model.graph)
    fold_weights(model)
    _restore_signature(model, source)
    name_layers(model, traced.layers)
    _require_onnx_ops(model, source)
    return to_opset(model, opset)


# From here on a graph input with an initializer has a default that a caller may override; before,
# a file had to list its weights as inputs. PyTorch goes on where it is asked to: it lists all
# weights of products, which nobody overrides.
_OVERRIDABLE_IR = 4


def _with_weights_inside(model: ir.Model) -> ir.Model:
    seconds = [node.inputs[1] for node in model.graph if node.op_type in PRODUCTS]
    weights = [value for value in seconds if value is not None and value.is_initializer()]
    every = bool(weights) and all(value.is_graph_input() for value in weights)
    if every or (model.ir_version is not None and model.ir_version < _OVERRIDABLE_IR):
        inputs = [value for value in model.graph.inputs if value.const_value is None]
        model.graph.inputs.clear()
        model.graph.inputs.extend(inputs)
        model.ir_version = max(model.ir_version or 0, _OVERRIDABLE_IR)
    return model


def _convert(traced: FrozenGraph, source: Source, opset: int) -> onnx.ModelProto:
    """Runs tf2onnx on a graph without large weights."""
    import tensorflow as tf
    from tf2onnx import optimizer, tf_loader, tfonnx, utils

    import tfmp.converters.onnx.export.handlers  # noqa: F401  (registers its handlers)
    from tfmp.converters.onnx.export.tf2onnx_passes import mended

    inputs = list(traced.inputs)
    _forget_xla(traced.graph_def)

    def convert() -> "Graph":
        with tf.Graph().as_default():  # grappler's export refuses to run eagerly
            graph_def = tf_loader.tf_optimize(inputs, traced.outputs, traced.graph_def)
        for node in graph_def.node:
            if node.op == UNFED:
                node.op = "Placeholder"
                del node.attr["memory_region_name"]
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(graph_def, name="")
            return tfonnx.process_tf_graph(
                graph,
                opset=min(opset, _TF2ONNX_OPSET),
                input_names=inputs,
                output_names=traced.outputs,
                tensors_to_rename=traced.inputs,
            )

    utils.INTERNAL_NAME = 1  # numbers its names per process; the same model gives the same bytes
    with _quiet_tf2onnx() as collected, reproducible("tf2onnx"), mended():
        try:
            try:
                onnx_graph = optimizer.optimize_graph(convert(), catch_errors=False)
            except Exception:  # one of its passes failed, and left the graph half changed
                # To go on without that pass it copies the graph for each: slow, so second.
                collected.flush()
                onnx_graph = optimizer.optimize_graph(convert(), catch_errors=True)
        except Exception as error:
            # tf2onnx raises every kind of exception; what it logged before says more.
            complaints = [record.getMessage() for record in collected.buffer]
            told = [_complaint(text, traced.layers) for text in complaints]
            reason = f"{type(error).__name__}: {error}"
            detail = "; ".join(dict.fromkeys([*filter(None, told), reason]))[:800]
            detail = with_layers(detail, traced.layers)
            ops = [found["op"] for text in complaints if (found := _named(text)) and found["op"]]
            newest = "" if opset >= _TF2ONNX_OPSET else "Leave --opset out. If that fails, too: "
            raise ConversionError(
                f"model {source.name!r}: tf2onnx cannot convert this graph ({detail})",
                f"{newest}Replace the layer named there by one made of standard ops, or fix sizes "
                f"that vary with --batch or --input-shape{_or_tflite(ops)}",
            ) from error
        return onnx_graph.make_model(source.name)


_FAILED_NODE = re.compile(
    r"Failed to convert node '(?P<name>[^']*)'(?:.*?OP=(?P<op>\w+))?", re.DOTALL
)
_LACKING = re.compile(r"Tensorflow op \[(?P<name>.*): (?P<op>\w+)\] is not supported")


def _named(text: str) -> re.Match[str] | None:
    """Name and op of the node that a message of tf2onnx is about."""
    return _FAILED_NODE.match(text) or _LACKING.match(text)


def _complaint(text: str, layers: Mapping[str, str]) -> str:
    """A message that tf2onnx logged; for a node that failed only its op and layer."""
    failed = _named(text)
    if failed is None:
        return "" if text.startswith("Unsupported ops") else text  # they were named one by one
    place = layer_of(failed["name"], layers) or failed["name"]
    return f"{failed['op']} in {place}" if failed["op"] else place


def _or_tflite(ops: Iterable[str]) -> str:
    """The other format as a way out, unless TFLite lacks one of these TensorFlow ops, too."""
    from tensorflow.lite.python.schema_py_generated import BuiltinOperator

    known = {re.sub(r"_|V\d$", "", name) for name in vars(BuiltinOperator)}
    if known.issuperset(re.sub(r"V\d$", "", op).upper() for op in ops):
        return ", or convert to TFLite (`tfmp-convert tflite`)"
    return ""


def _forget_xla(graph_def: GraphDef) -> None:
    """Lets functions that a saved model compiles with XLA be inlined like any other."""
    nodes = [*graph_def.node, *(n for f in graph_def.library.function for n in f.node_def)]
    for holder in (*nodes, *graph_def.library.function):
        holder.attr.pop("_XlaMustCompile", None)


@contextmanager
def _quiet_tf2onnx() -> Iterator[BufferingHandler]:
    """Collects the errors that tf2onnx logs, instead of letting it print them."""
    logger, collect = logging.getLogger("tf2onnx"), BufferingHandler(sys.maxsize)
    collect.setLevel(logging.ERROR)
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(collect)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecations inside tf2onnx and TensorFlow
            yield collect
    finally:
        logger.removeHandler(collect)
        logger.propagate = propagate


def _attach_weights(model: ir.Model, weights: dict[str, np.ndarray]) -> None:
    """Turns the graph inputs that stand for weights into initializers, without a copy."""
    graph = model.graph
    for value in [value for value in graph.inputs if value.name in weights]:
        graph.inputs.remove(value)
        if value.uses():
            value.const_value = ir.tensor(weights[value.name], name=value.name)
            graph.initializers.add(value)


def _restore_signature(model: ir.Model, source: Source) -> None:
    """Names outputs as the source does, and gives inputs and outputs their declared shapes."""
    graph = model.graph
    taken = {value.name for value in graph.inputs} | set(graph.initializers)
    for index, (value, spec) in enumerate(zip(list(graph.outputs), source.outputs, strict=True)):
        if value.producer() is None or value in graph.outputs[:index] or value.name in taken:
            # The output is an input, a weight, or another output: it needs a value of its own.
            identity = ir.Node("", "Identity", [value], name=f"tfmp_output_{index}")
            graph.append(identity)
            identity.outputs[0].dtype = value.dtype
            graph.outputs[index] = value = identity.outputs[0]
        value.name = spec.name
    received = {value.name for value in graph.inputs}
    expected = {spec.name for spec in source.inputs}
    if received - expected:
        raise ConversionError(
            f"model {source.name!r}: the ONNX graph has the inputs {sorted(received - expected)}, "
            f"which the model does not have (expected {describe(source.inputs)})",
            "Report this model",
        )
    by_name = {value.name: value for value in graph.inputs}
    graph.inputs.clear()
    for spec in source.inputs:
        # tf2onnx drops inputs that nothing reads; the signature keeps them.
        value = by_name.get(spec.name) or ir.Value(name=spec.name)
        graph.inputs.append(value)
    for value, spec in [
        *zip(graph.inputs, source.inputs, strict=True),
        *zip(graph.outputs, source.outputs, strict=True),
    ]:
        dtype = np.dtype(object if spec.dtype == TEXT else spec.dtype)
        value.dtype = ir.DataType.from_numpy(dtype)
        value.shape = ir.Shape(
            "batch" if axis == 0 and size is None else size for axis, size in enumerate(spec.shape)
        )


# Two FP32 implementations that differ only in summation order agree far better than this on any
# model of the corpus (largest seen: 1e-6); a wrong op or weight layout does not.
_EXPORT_REL_L2 = 1e-4

_AT_THE_END = (
    "Float32 runtimes differ there: ONNX Runtime's sigmoid is 0 far below zero, for one. Take "
    "log_sigmoid for its logarithm, a floor under a divisor, or convert to TFLite"
)

# Eight steps of float32 at 1: what vectorized exponentials of runtimes are off by at most.
_TAIL_STEPS = 8 * float(np.finfo(np.float32).eps)

# Another order of summation makes another rounding error, not a much larger one.
_NOISE_FACTOR = 3.0


def check_export(model: ir.Model, source: Source) -> float:
    """Runs the export and the source on a seeded probe batch and compares them.

    Returns:
        The largest relative L2 difference of any output.

    Raises:
        ConversionError: ONNX Runtime refuses the model, or an output differs by more than FP32
            rounding explains, in models in general and in this one as float64 shows it; weights
            that are NaN are told instead.
    """
    # First, for only TensorFlow's run of a model without an end can be ended.
    batch = probe(source, samples=2, seed=0)
    reference = _reference(source, batch)
    try:
        run = open_once(model)
        names = [spec.name for spec in source.outputs]
        received = dict(zip(names, run(names, batch), strict=True))
    except Exception as error:  # ONNX Runtime's exceptions share no base class
        raise ConversionError(
            f"model {source.name!r}: ONNX Runtime cannot run the export "
            f"({with_layers(first_line(error), source.layers)})",
            "Replace the layer named there by one made of standard ops, or convert to TFLite "
            "(`tfmp-convert tflite`)",
        ) from error
    worst = 0.0
    for name, expected in reference.items():
        difference = _rel_l2(expected, received[name])
        if (
            not difference <= _EXPORT_REL_L2
            and not _differs_in_tails(source, name, expected, received[name])
            and not _as_near_to_float64(source, run, name)
        ):
            if source.nan_weights:
                raise ConversionError(
                    f"model {source.name!r}: its weights are NaN in {source.nan_weights}, so "
                    f"output {name!r} cannot be compared with an export",
                    "Convert a checkpoint from before the training diverged",
                )
            if (way := _way_to_run(source)) and not np.isfinite(expected).any():
                raise ConversionError(
                    f"model {source.name!r}: output {name!r} is NaN for inputs of every size that "
                    "was tried, so the export cannot be checked",
                    f"G{way[1:]}",
                )
            raise ConversionError(
                f"model {source.name!r}: output {name!r} of the ONNX export differs from Keras by "
                f"{difference:.2g} (relative L2; at most {_EXPORT_REL_L2:g} is rounding)",
                _way_on(source, received[name]),
            )
        worst = max(worst, difference)
    return worst


def _way_on(source: Source, received: np.ndarray) -> str:
    """What to do with an export that is wrong; filters of resizing need fixed sizes."""
    if not np.isfinite(received).all():
        return _AT_THE_END
    varies = any(None in spec.shape[1:] for spec in source.inputs)
    fix = "Fix the sizes of the inputs with --input-shape. If that fails, too: " if varies else ""
    return f"{fix}Convert to TFLite (`tfmp-convert tflite`), and report the model"


def _reference(source: Source, batch: Batch) -> Batch:
    """The outputs of the source itself."""
    try:
        return source.forward(batch)
    except Exception as error:  # TensorFlow lacks some kernels on some devices
        lines = [line.strip() for line in str(error).splitlines()]
        told = [line for line in lines if line and not line.startswith("[[")]  # where in its graph
        reason = told[-1][:300] if told else type(error).__name__
        ways = filter(None, ("Convert it where TensorFlow can run it", _way_to_run(source)))
        raise ConversionError(
            f"model {source.name!r}: TensorFlow itself cannot run this model here ({reason}), so "
            f"the export cannot be checked",
            missing_kernel(reason) or ", or ".join(ways),
        ) from error


def _way_to_run(source: Source) -> str:
    """How to give inputs that a model takes; "" where data are given already."""
    if source.sampled is not None:
        return ""
    name = next((spec.name for spec in source.inputs if None in spec.shape[1:]), "")
    sizes = f", or usual sizes (--input-shape {name}=SIZES)" if name else ""
    return f"give data that it takes (--data FILE or data=...){sizes}"


def _as_near_to_float64(source: Source, run: Run, name: str) -> bool:
    """Whether Keras's float32 output is as wrong as the export's.

    Deep models with random weights amplify rounding until their outputs consist of little else.
    """
    # A saturated softmax hides it in most samples.
    batch = probe(source, samples=16, seed=1)
    try:
        exact = Float64Model(source).run(batch)[name]
    except ConversionError:
        return False
    own = _rel_l2(exact, source.forward(batch)[name])
    ours = _rel_l2(exact, run([name], batch)[0])
    return own > _EXPORT_REL_L2 and ours <= _NOISE_FACTOR * own


def _differs_in_tails(
    source: Source, name: str, expected: np.ndarray, received: np.ndarray
) -> bool:
    """Whether an output is a sigmoid or softmax that is off by float32's step at 1 at most.

    Far from the middle these are numbers like 1e-20, which runtimes round as they like.
    """
    hint = source.hints.get(name)
    if hint is None or hint.activation not in ("sigmoid", "softmax"):
        return False
    alike = expected.shape == received.shape and expected.dtype == np.float32
    return alike and float(np.abs(expected - received).max(initial=0.0)) <= _TAIL_STEPS


def _rel_l2(expected: np.ndarray, received: np.ndarray) -> float:
    if expected.shape != received.shape:
        return float("inf")
    if not np.issubdtype(expected.dtype, np.floating):
        return 0.0 if np.array_equal(expected, received) else float("inf")
    return relative_l2(expected, received)


# TensorFlow's ops that draw numbers, by how they begin.
_RANDOM = re.compile("(Stateless)?(Parameterized)?(Random|TruncatedNormal|Multinomial)")


def _require_onnx_ops(model: ir.Model, source: Source) -> None:
    opsets = model.opset_imports
    foreign = [
        node
        for node in model.graph.all_nodes()
        if node.domain or not onnx.defs.has(node.op_type, opsets.get(node.domain, 1), node.domain)
    ]
    if foreign:
        places = [(node.op_type, node.metadata_props["tfmp.layer"]) for node in foreign]
        where = {f"{op} in {layer}" if layer else op for op, layer in places}
        told = listed(sorted(where), 5)
        if all(_RANDOM.match(op) for op, _ in places):
            raise ConversionError(
                f"no ONNX form for: {told}, which draws random numbers, and no file draws the "
                "same ones",
                "Let the model take the random numbers as an input, or convert the part of it "
                "before they are drawn",
            )
        sized = any(op in FILLINGS for op, _ in places)
        fix = "Fix the sizes of the inputs with --input-shape, or replace" if sized else "Replace"
        behind = cut_behind(source, places[0][1])
        raise ConversionError(
            f"no ONNX form for: {told}",
            f"{fix} the layer by one made of standard ops{_or_tflite(op for op, _ in places)}"
            f"{behind and f', or do its step before the model{behind}'}",
        )

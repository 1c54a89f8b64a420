"""Nodes know the Keras layer they came from."""

import keras
import onnx_ir as ir
import pytest
import tensorflow as tf
from own_layer import Own

from tfmp.converters.intake import open_source
from tfmp.converters.onnx.export.export import check_export, export_onnx
from tfmp.converters.onnx.export.layers import without_marks
from tfmp.converters.shared.errors import ConversionError


def layers_by_op(model) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node in model.graph.all_nodes():
        found.setdefault(node.op_type, set()).add(node.metadata_props["tfmp.layer"])
    return found


def test_every_node_has_a_layer_of_the_model(exported):
    source, model = exported("transformer")
    known = {layer.name for layer in source.keras_model._flatten_layers(include_self=False)}
    known |= {operation.name for operation in source.keras_model.operations}
    for node in model.graph.all_nodes():
        layer = node.metadata_props["tfmp.layer"]
        assert layer, node.name
        assert set(layer.split("/")) <= known, layer


def test_names_that_look_like_tensorflows_numbering_are_told_apart():
    x = keras.Input((2,), name="x")
    first = keras.layers.Dense(3, activation="tanh", name="dense")
    second = keras.layers.Dense(3, activation="sigmoid", name="dense_1")
    y = second(first(first(keras.layers.Dense(2, name="in")(x))[:, :2]))
    found = layers_by_op(export_onnx(open_source(keras.Model(x, y))))
    assert found["Tanh"] == {"dense"}
    assert found["Sigmoid"] == {"dense_1"}


def test_errors_name_layers_not_scopes():
    x = keras.Input((2,), name="x")
    with pytest.raises(ConversionError, match=r"BesselI0e in odd_layer") as caught:
        export_onnx(open_source(keras.Model(x, Own(tf.math.bessel_i0e, name="odd_layer")(x))))
    assert "tfmp_layer" not in str(caught.value)


def test_calls_of_keras_ops_are_layers_of_a_functional_model():
    """A call has the number behind its name that `model.summary()` shows."""
    inner_in = keras.Input((3,))
    inner = keras.Model(inner_in, keras.ops.tanh(inner_in), name="inner")
    x = keras.Input((3,), name="x")
    model = keras.Model(x, keras.ops.exp(inner(keras.ops.cos(x))))
    found = layers_by_op(export_onnx(open_source(model)))
    names = {type(operation).__name__: operation.name for operation in model.operations}
    assert found["Cos"] == {names["Cos"]}
    assert found["Exp"] == {names["Exp"]}
    (path,) = found["Tanh"]
    assert path.startswith("inner/tanh")


def test_marks_of_layers_are_in_no_name_of_a_file():
    shared = keras.layers.Dense(3, activation="tanh", name="twice")
    x = keras.Input((3,), name="x")
    y = shared(keras.layers.Rescaling(2.0, name="scale")(shared(x)))
    source = open_source(keras.Model(x, y, name="outer"))
    model = export_onnx(source)
    assert "tfmp_layer" in str(ir.to_proto(model)), "nothing to take out"
    without_marks(model)
    assert "tfmp_layer" not in str(ir.to_proto(model))
    names = [node.name for node in model.graph.all_nodes()]
    assert len(set(names)) == len(names)
    check_export(model, source)
    assert layers_by_op(model)["Mul"] == {"scale"}

"""An export that is wrong says where."""

import keras
import numpy as np
import onnx_ir as ir
import pytest

from tfmp.converters.intake import open_source
from tfmp.converters.onnx.export import export
from tfmp.converters.onnx.export.divergence import first_wrong
from tfmp.converters.onnx.export.export import check_export, export_onnx
from tfmp.converters.shared.errors import ConversionError
from tfmp.converters.shared.tensors import synthetic_batch


def chain() -> keras.Model:
    keras.utils.set_random_seed(0)
    x = y = keras.Input((4,), name="x")
    for name in ("one", "two", "three"):
        y = keras.layers.Dense(4, activation="tanh", name=name)(y)
    return keras.Model(x, keras.ops.exp(y), name="chain")


def spoiled(source, layer: str) -> ir.Model:
    """The export with another function in one layer."""
    model = export_onnx(source)
    (node,) = [
        node
        for node in model.graph
        if node.op_type == "Tanh" and node.metadata_props["tfmp.layer"] == layer
    ]
    node.op_type = "Sin"
    return model


@pytest.mark.parametrize("layer", ["one", "two", "three"])
def test_the_first_wrong_result_is_named(layer):
    source = open_source(chain())
    batch = synthetic_batch(source.inputs, samples=2, seed=0)
    assert first_wrong(spoiled(source, layer), source, batch) == f"Tanh in {layer}"
    assert first_wrong(export_onnx(source), source, batch) is None


def test_the_error_says_it():
    source = open_source(chain())
    with pytest.raises(ConversionError, match="the first wrong result comes from Tanh in two"):
        check_export(spoiled(source, "two"), source)


def test_moved_axes_are_no_difference(exported):
    """tf2onnx turns images round and keeps TensorFlow's names for them."""
    source, model = exported("conv")
    batch = synthetic_batch(source.inputs, samples=2, seed=0)
    assert first_wrong(model, source, batch) is None


def test_an_output_that_alone_is_wrong_names_its_layer(exported):
    source, model = exported("dense")
    node = model.graph.outputs[0].producer()
    node.op_type = "LogSoftmax"
    with pytest.raises(ConversionError, match="comes from LogSoftmax in scores"):
        check_export(model, source)


def test_a_search_that_fails_hides_no_error(monkeypatch):
    def fail(*_):
        raise RuntimeError("no")

    monkeypatch.setattr(export, "first_wrong", fail)
    source = open_source(chain())
    with pytest.raises(ConversionError, match=r"is rounding\)\. Replace"):
        check_export(spoiled(source, "two"), source)


def test_complex_values_are_compared_as_pairs():
    x = keras.Input((8,), name="x")
    source = open_source(keras.Model(x, keras.ops.rfft(x)[0]))
    batch = {"x": np.random.default_rng(0).standard_normal((2, 8), dtype=np.float32)}
    assert first_wrong(export_onnx(source), source, batch) is None

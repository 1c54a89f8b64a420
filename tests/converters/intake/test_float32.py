"""Models that were trained in 16 or 64 bits, in float32."""

import keras
import numpy as np
import pytest
from keras import layers

from tfmp.converters.intake import open_source
from tfmp.converters.onnx.export.export import check_export, export_onnx
from tfmp.converters.shared.tensors import synthetic_batch


@pytest.fixture
def policy(request):
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy("float32")


def small(dtype: str = "float32") -> keras.Model:
    keras.utils.set_random_seed(0)
    x = keras.Input((6, 6, 3), dtype=dtype, name="x")
    h = layers.BatchNormalization()(layers.Conv2D(4, 3)(x))
    h = layers.LayerNormalization()(layers.Reshape((-1, 4))(keras.ops.relu(h)))
    h = layers.GRU(3, recurrent_initializer="glorot_uniform")(layers.MultiHeadAttention(2, 2)(h, h))
    return keras.Model(x, layers.Dense(2, name="y")(h))


@pytest.mark.parametrize("policy", ["bfloat16", "float64", "mixed_float16"], indirect=True)
def test_a_model_of_other_floats_is_widened(policy):
    model = small(dtype=policy.removeprefix("mixed_"))
    keras.config.set_dtype_policy("float32")
    wide = small()
    wide.set_weights([weight.astype(np.float32) for weight in model.get_weights()])
    source = open_source(model)
    weights = f"its {64 if policy == 'float64' else 16}-bit weights, the only ones it has"
    weights = "its master weights" if policy.startswith("mixed_") else weights
    told = f"trained under {policy}: converted in float32 from {weights}"
    assert source.origin.notes == (told,)
    assert {spec.dtype for spec in (*source.inputs, *source.outputs)} == {"float32"}
    batch = synthetic_batch(source.inputs, samples=2, seed=1)
    np.testing.assert_allclose(source.forward(batch)["y"], wide(batch["x"]), rtol=1e-5, atol=1e-6)
    exported = export_onnx(source)
    assert check_export(exported, source) < 1e-6
    held = {value.const_value.dtype.name for value in exported.graph.initializers.values()}
    assert held <= {"FLOAT", "INT64", "INT32", "BOOL"}


@pytest.mark.parametrize("policy", ["mixed_bfloat16"], indirect=True)
def test_the_model_is_left_as_it_was(policy):
    model = small("float16")
    before = [(v.dtype, v._value) for v in model.variables]
    policies = [layer.dtype_policy.name for layer in model._flatten_layers()]
    export_onnx(open_source(model))
    for variable, (dtype, value) in zip(model.variables, before, strict=True):
        assert variable.dtype == dtype
        assert variable._value is value
    assert [layer.dtype_policy.name for layer in model._flatten_layers()] == policies
    assert [tensor.dtype for tensor in model.inputs] == ["float16"]

"""SavedModels that compute in 16 bits are converted in float32."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfmp.converters import open_source


def export(folder, policy: str) -> keras.Model:
    with_policy = {"dtype": policy}
    model = keras.Sequential(
        [
            keras.Input((6, 4), name="x"),
            keras.layers.Conv1D(3, 2, activation="relu", **with_policy),
            keras.layers.LSTM(5, **with_policy),
            keras.layers.Dense(2, **with_policy),
        ]
    )
    model.export(folder, verbose=False)
    return model


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "float16", "float32"])
def test_what_was_computed_in_16_bits_is_computed_in_float32(tmp_path, policy):
    model = export(tmp_path / "model", policy)
    source = open_source(tmp_path / "model")
    graph = source.graph.graph
    products = [op for op in graph.get_operations() if op.type in ("Conv2D", "MatMul")]
    assert products
    assert {op.outputs[0].dtype for op in products} == {tf.float32}
    told = f"its graph computes in {policy.removeprefix('mixed_')}: converted in float32"
    assert source.origin.notes == ((told,) if policy != "float32" else ())
    wide = keras.Sequential.from_config(export_config(model))
    wide.set_weights(model.get_weights())
    x = np.random.default_rng(0).random((2, 6, 4), dtype=np.float32)
    (received,) = source.forward({"x": x}).values()
    np.testing.assert_allclose(received, wide(x), rtol=1e-5, atol=1e-6)


def export_config(model: keras.Model) -> dict:
    config = model.get_config()
    for layer in config["layers"]:
        layer["config"]["dtype"] = "float32"
    return config

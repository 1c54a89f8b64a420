"""dtype_policies: the policy that computes in float64 on float32 weights, through a file."""

import keras
import numpy as np
import pytest

from tfmp.precision.dtype_policies import MixedFloat64, named_policy
from tfmp.precision.policy import plan
from tfmp.precision.reverting import revert

X = np.random.default_rng(0).standard_normal((8, 4, 3)).astype("float32")
Y = X[:, 0, :1]


def dtypes(model: keras.Model) -> set[tuple[str, str]]:
    return {(layer.compute_dtype, layer.variable_dtype) for layer in model.layers}


def test_a_model_in_float64_loads_and_saves_again(tmp_path):
    model = keras.Sequential(
        [keras.Input((4, 3)), keras.layers.LSTM(5), keras.layers.Dense(1)], name="net"
    )
    model.compile("sgd", "mse")
    plan(model, keep={"float64": ".*"}).apply()
    model.fit(X, Y, verbose=0)
    path = tmp_path / "model.keras"
    for _ in range(2):
        expected = model.predict(X, verbose=0)
        model.save(path)
        model = keras.models.load_model(path)
        assert dtypes(model) == {("float64", "float32")}
        np.testing.assert_array_equal(model.predict(X, verbose=0), expected)
    plan(model, "float32").apply()
    assert dtypes(model) == {("float32", "float32")}
    assert dtypes(revert(model)) == {("float64", "float32")}
    model.fit(X, Y, verbose=0)


def test_policies_are_taken_as_objects():
    assert named_policy("auto") == ("auto", {})
    assert named_policy(keras.DTypePolicy("mixed_bfloat16")) == ("mixed_bfloat16", {})
    entries = {"enc/.*": keras.DTypePolicy("bfloat16"), "out": MixedFloat64()}
    policy = keras.dtype_policies.DTypePolicyMap("mixed_float16", entries)
    assert named_policy(policy) == (
        "mixed_float16",
        {"enc/.*": "bfloat16", "out": "mixed_float64"},
    )


def test_other_policies_are_refused():
    with pytest.raises(ValueError, match="received 'int8_from_float32'"):
        named_policy(keras.dtype_policies.get("int8_from_float32"))
    with pytest.raises(TypeError, match="policy expects a string; received 3"):
        named_policy(3)

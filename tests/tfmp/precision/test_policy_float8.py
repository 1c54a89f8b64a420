"""policy: the plan `mixed_float8`, which Keras can carry out in two kinds of layers."""

import keras
import numpy as np
import pytest
from keras import layers
from stacks import stack

from tfmp import MixedPrecision, plan, policy_scope, revert

X = np.random.default_rng(0).random((32, 8)).astype("float32")
Y = X[:, :1]
FLOAT8 = "float8_from_mixed_bfloat16"


def model() -> keras.Model:
    keras.utils.set_random_seed(0)
    hidden, kept, out = (
        layers.Dense(n, name=k) for n, k in ((16, "hidden"), (16, "kept"), (1, "out"))
    )
    return stack(hidden, layers.EinsumDense("ab,bc->ac", 16, name="einsum"), kept, out, inputs=(8,))


def test_hidden_products_are_in_float8():
    made = plan(model(), "mixed_float8", keep_float32="kept")
    policies = {row.path: row.policy for row in made.rows}
    assert policies == {
        "/": "mixed_bfloat16",
        "hidden": FLOAT8,
        "einsum": FLOAT8,
        "kept": "float32",
        "out": "float32",
    }
    assert "compute capability 8.9" in made.notes[-1]


@pytest.mark.slow
def test_a_model_with_it_trains_saves_and_reverts(tmp_path):
    net = model()
    plan(net, "mixed_float8").apply()
    net.compile(keras.optimizers.Adam(1e-2), "mse")
    history = net.fit(X, Y, epochs=4, verbose=0, callbacks=[MixedPrecision("mixed_bfloat16")])
    assert history.history["loss"][-1] < history.history["loss"][0]
    assert net.get_layer("hidden").dtype_policy.name == FLOAT8
    net.save(tmp_path / "net.keras")
    loaded = keras.models.load_model(tmp_path / "net.keras")
    np.testing.assert_array_equal(loaded.predict(X, verbose=0), net.predict(X, verbose=0))
    revert(net)
    assert net.get_layer("hidden").dtype_policy.name == "float8_from_float32"
    assert net.get_layer("hidden").compute_dtype == "float32"
    net.fit(X, Y, verbose=0)


def test_a_model_whose_optimizer_is_built_is_refused_before_any_change():
    net = model()
    net.compile("adam", "mse")
    net.optimizer.build(net.trainable_variables)
    with pytest.raises(ValueError, match="Apply the plan before the training, then compile"):
        plan(net, "mixed_float8").apply()
    assert {layer.dtype_policy.name for layer in net.layers} == {"float32"}


def test_it_is_no_policy_of_a_scope():
    with pytest.raises(ValueError, match="which is a plan"), policy_scope("mixed_float8"):
        pass

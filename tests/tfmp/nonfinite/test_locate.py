"""locate_nonfinite: each stage and each cause, named on a model that goes wrong just there.

`tests/test_backends.py` runs these on JAX and PyTorch, too.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
from backends import only_on
from keras import layers, ops
from own_layer import Own, OwnModel

from tfmp import MixedPrecision, calibrate, plan
from tfmp.loss_scaling.optimizer import LossScaleOptimizer
from tfmp.nonfinite.locate import locate_nonfinite

HALF = "mixed_float16"
RNG = np.random.default_rng(0)
X = RNG.standard_normal((8, 4)).astype("float32")
Y = X.sum(axis=1, keepdims=True)


def sequential(*parts, loss="mse", optimizer=None) -> keras.Model:
    net = keras.Sequential([layers.Input((4,)), *parts])
    net.compile(optimizer or keras.optimizers.SGD(), loss)
    return net


def dense(units: int = 4, **options) -> layers.Layer:
    return layers.Dense(units, **options)


def constant(value: float) -> keras.initializers.Initializer:
    return keras.initializers.Constant(value)


def spoiled(array: np.ndarray, row: int, value: float) -> np.ndarray:
    array = array.copy()
    array[row, 0] = value
    return array


# --- data and weights ---


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        (spoiled(X, 3, np.nan), Y, "x has 1 NaN of 32 values. The first is in row 3"),
        (X, spoiled(Y, 5, -np.inf), "y has 1 infinite of 8 values. The first is in row 5"),
    ],
)
def test_the_data_itself(x, y, said):
    found = locate_nonfinite(sequential(dense(1)), x, y)
    assert (found.stage, found.cause, found.layer) == ("data", "data", None)
    assert said in str(found)


@pytest.mark.parametrize(("x", "y"), [(X[:, :3], Y), (X[:0], Y[:0])])
def test_a_batch_that_the_model_cannot_train_on(x, y):
    net = sequential(dense(1))
    with pytest.raises(
        ValueError, match=rf"Model '{net.name}' cannot train on this batch: .+ Pass"
    ):
        locate_nonfinite(net, x, y)


def test_named_inputs_and_sample_weights_of_the_data():
    inputs = {name: layers.Input((4,), name=name) for name in ("left", "right")}
    net = keras.Model(inputs, layers.Dense(1)(layers.Add()(list(inputs.values()))))
    net.compile("sgd", "mse")
    found = locate_nonfinite(net, {"left": X, "right": spoiled(X, 1, np.inf)}, Y)
    assert "x['right'] has 1 infinite of 32 values" in found.what
    weight = np.where(np.arange(8) == 6, np.nan, 1.0)
    found = locate_nonfinite(net, {"left": X, "right": X}, Y, weight)
    assert "sample_weight has 1 NaN of 8 values" in found.what


def test_a_weight_that_was_broken_before():
    net = sequential(dense(name="hidden"), dense(1))
    net.layers[0].bias.assign([1.0, np.nan, 1.0, 1.0])
    found = locate_nonfinite(net, X, Y)
    assert (found.stage, found.cause, found.layer) == ("weights", "weights", "hidden")
    assert "hidden/bias has 1 NaN of 4 values before the step" in found.what
    assert "checkpoint" in found.advice


class Means(layers.Layer):
    """Keeps a mean of its inputs, and may use it."""

    def __init__(self, uses, **options):
        super().__init__(**options)
        self.uses = uses

    def build(self, shape):
        self.mean = self.add_weight(shape=(), initializer="zeros", trainable=False, name="mean")

    def call(self, x):
        return x - self.mean if self.uses else x


@pytest.mark.parametrize("uses", [True, False])
def test_state_that_a_layer_broke_in_a_step_before(uses):
    net = sequential(dense(), Means(uses, name="means"), dense(1))
    net.get_layer("means").mean.assign(np.nan)
    found = locate_nonfinite(net, X, Y)
    assert (found.stage, found.cause, found.layer) == ("weights", "weights", "means")
    assert found.what.startswith("The state ")
    assert found.what.endswith("means/mean has 1 NaN of 1 values before the step")
    assert found.why.startswith("no optimizer changes it: its layer assigned it in an earlier step")


def test_a_layer_that_overflows_comes_before_the_state_that_it_broke():
    big = dense(name="big", dtype=HALF, kernel_initializer=constant(60000.0))
    net = sequential(big, layers.BatchNormalization(name="norm"), dense(1))
    net.get_layer("norm").moving_mean.assign([np.nan] * 4)
    assert locate_nonfinite(net, X, Y).layer == "big"


# --- forward ---


def test_an_input_that_does_not_fit_into_float16():
    found = locate_nonfinite(sequential(dense(name="first", dtype=HALF), dense(1)), X * 1e6, Y)
    assert (found.stage, found.cause, found.layer) == ("forward", "overflow", "first")
    assert "overflows when it is cast to float16" in found.why
    assert found.ranges[0][1].magnitude == pytest.approx(np.abs(X).max() * 1e6)
    assert "keep_float32=['first']" in found.advice


@only_on("tensorflow", "jax", reason="names of operations")
def test_an_output_that_does_not_fit_into_float16():
    big = dense(name="big", dtype=HALF, kernel_initializer=constant(60000.0))
    found = locate_nonfinite(sequential(dense(), big, dense(1)), X, Y)
    assert (found.stage, found.cause, found.layer) == ("forward", "overflow", "big")
    assert "and float16 ends at 65504" in found.why
    assert found.op.name in ("MatMul", "dot_general")
    assert found.op.where is None  # a library's operation has no line in anyone's code


def normalize(x):
    squared = ops.square(x * 300)
    return squared / ops.sum(squared, axis=-1, keepdims=True)


@only_on("tensorflow", "jax", reason="names of operations")
def test_an_intermediate_value_that_does_not_fit_into_float16():
    net = sequential(Own(normalize, name="unit", dtype=HALF), dense(1, dtype="float32"))
    found = locate_nonfinite(net, X * 10, Y)
    assert (found.stage, found.cause, found.layer) == ("forward", "overflow", "unit")
    assert "an intermediate value overflows float16; in float32 all is finite" in found.why
    assert found.op.name.lower() == "square"
    assert found.op.where.startswith("test_locate.py:")


def test_arithmetic_that_no_precision_helps():
    net = sequential(dense(), Own(lambda x: ops.log(ops.relu(x)), name="log"), dense(1))
    found = locate_nonfinite(net, X, Y)
    assert (found.stage, found.cause, found.layer) == ("forward", "invalid", "log")
    assert "not finite in float32 either" in found.why
    assert found.op.name.lower() == "log"


def test_a_layer_inside_a_model_inside_a_model():
    bad = Own(lambda x: x / 0.0, name="divide")
    inner = keras.Sequential([layers.Input((4,)), dense(), bad], name="inner")
    found = locate_nonfinite(sequential(inner, dense(1)), X, Y)
    assert found.layer == "inner/divide"


def test_operations_between_layers():
    net = OwnModel(lambda own, x: own.second(ops.log(own.first(x) * 0)), first=4, second=1)
    net.compile("sgd", "mse")
    net(X)
    found = locate_nonfinite(net, X, Y)
    assert (found.stage, found.cause, found.layer) == ("forward", "invalid", None)
    assert "The input of layer second (Dense) is not finite" in found.what
    assert "the model (OwnModel) itself, between its layers" in found.why


# --- loss ---


def test_the_logarithm_in_a_loss():
    def loss(y, predicted):
        return -ops.mean(ops.log(predicted))

    net = sequential(dense(1, kernel_initializer="zeros"), loss=loss)
    found = locate_nonfinite(net, X, Y)
    assert (found.stage, found.cause, found.layer) == ("loss", "invalid", None)
    assert found.op.name.lower() == "log"
    assert [name for name, _ in found.ranges] == ["y_pred", "y"]


class HalfLoss(keras.Sequential):
    """Keras's own losses are computed in float32 whatever the outputs are."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return ops.mean(ops.square(y_pred * 1000))


def test_a_loss_that_overflows_in_float16():
    net = HalfLoss([layers.Input((4,)), dense(1, dtype=HALF)])
    net.compile("sgd")
    found = locate_nonfinite(net, X, Y)
    assert (found.stage, found.cause) == ("loss", "overflow")
    assert "Keep the output layers in float32" in found.advice


def test_code_that_casts_to_16_bits_by_itself_is_not_called_invalid_in_float32():
    def in_half(values):
        return ops.square(1000 * (ops.cast(values, "float16") + 1))

    def loss(y, predicted):
        return ops.mean(in_half(predicted))

    nets = [sequential(dense(1), loss=loss)]
    for dtype in ("float32", HALF):
        own = Own(lambda x: ops.cast(in_half(x), "float32"), name="own", dtype=dtype)
        nets.append(sequential(own, dense(1)))
    for net in nets:
        found = locate_nonfinite(net, X, Y)
        assert found.op.dtype == "float16"
        assert "casts to 16 bits" in found.why
        assert "Cast to float32" in found.advice


def test_a_loss_that_a_layer_adds():
    class Adds(layers.Layer):
        def call(self, x):
            self.add_loss(ops.sum(ops.log(x * 0)))
            return x

    found = locate_nonfinite(sequential(dense(), Adds(name="adds"), dense(1)), X, Y)
    assert (found.stage, found.layer) == ("loss", "adds")
    assert "adds with add_loss" in found.what


# --- gradients ---


def test_a_loss_scale_that_is_too_high():
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(), 2.0**22)
    net = sequential(dense(dtype=HALF), dense(dtype=HALF), dense(1), optimizer=optimizer)
    found = locate_nonfinite(net, X, Y)
    assert (found.stage, found.cause, found.loss_scale) == ("gradient", "loss scale", 2.0**22)
    limit = float(found.why.split("; at ")[1].split()[0])
    assert not locate_nonfinite(net, X, Y, loss_scale=limit)
    assert locate_nonfinite(net, X, Y, loss_scale=2 * limit).cause == "loss scale"
    assert found.advice.endswith(f"a static one should be at most {limit:g}.")


def test_a_loss_so_large_that_only_a_scale_below_1_is_low_enough():
    size = 1e10
    optimizer = LossScaleOptimizer(keras.optimizers.SGD())
    net = sequential(dense(dtype=HALF), dense(dtype=HALF), dense(1), optimizer=optimizer)
    found = locate_nonfinite(net, X, Y * size, loss_scale=1.0)
    assert found.cause == "loss scale"
    lowest = float(eval(found.advice.split("min_scale=")[1].removesuffix(").")))
    assert lowest < 1
    assert not locate_nonfinite(net, X, Y * size, loss_scale=lowest)


def test_a_derivative_that_is_not_finite():
    norm = Own(lambda x: ops.sqrt(ops.sum(ops.square(x), -1, keepdims=True)), name="norm")
    net = sequential(dense(kernel_initializer="zeros", name="zeros"), norm, dense(1))
    found = locate_nonfinite(net, X, Y)
    assert (found.stage, found.cause, found.layer) == ("gradient", "invalid", "norm")
    assert "norm (Own) passes back to layer zeros (Dense)" in found.what


def test_a_derivative_that_overflows_float16_at_every_scale():
    steep = Own(lambda x: ops.tanh(x * 60000) * 60000, name="steep", dtype=HALF)
    before = dense(name="before", dtype=HALF, kernel_initializer="zeros")
    found = locate_nonfinite(sequential(before, steep, dense(1)), X, Y * 1e4)
    assert (found.stage, found.cause, found.layer) == ("gradient", "overflow", "steep")
    assert "keep_float32=['steep']" in found.advice
    norm = dense(1, activation=lambda x: ops.sqrt(ops.square(x)), name="norm")
    tiny = dense(dtype=HALF, kernel_initializer=constant(1e-9))
    found = locate_nonfinite(sequential(tiny, norm, dense(1)), X, Y)
    assert found.advice.startswith("Keep the argument away")  # it is float32 already


# --- nothing, and what stays as it was ---


def attention() -> keras.Model:
    inputs = layers.Input((4,))
    words = layers.Embedding(10, 4, mask_zero=True)(inputs)
    mixed = layers.MultiHeadAttention(2, 4, dtype=HALF)(words, words)
    net = keras.Model(inputs, dense(1)(layers.GlobalAveragePooling1D()(mixed)))
    net.compile("sgd", "mse")
    return net


def test_finite_steps_of_larger_layers_are_false():
    found = locate_nonfinite(attention(), np.abs(X).round(), Y)
    assert not found
    assert str(found).startswith("All values are finite at loss scale 1. Replay the batch that")


def test_the_model_is_left_as_it_was():
    optimizer = LossScaleOptimizer(keras.optimizers.Adam(), 2.0**30)
    net = sequential(
        dense(dtype=HALF, kernel_regularizer="l2"),
        layers.BatchNormalization(dtype=HALF),
        layers.Dropout(0.5),
        dense(1),
        optimizer=optimizer,
    )
    net.run_eagerly = True
    net.fit(X, Y, verbose=0)
    before = [variable.numpy().tolist() for variable in (*net.variables, *optimizer.variables)]
    policies = [layer.dtype_policy.name for layer in net.layers]
    call = layers.Layer.__call__
    assert locate_nonfinite(net, X, Y).stage == "gradient"
    after = [variable.numpy().tolist() for variable in (*net.variables, *optimizer.variables)]
    assert after == before
    assert [layer.dtype_policy.name for layer in net.layers] == policies
    assert layers.Layer.__call__ is call
    assert len(net.losses) == 1  # the regularizer's


def test_a_model_without_a_loss_is_refused():
    with pytest.raises(ValueError, match="it was compiled without a loss, and no layer adds one"):
        locate_nonfinite(sequential(dense(1), loss=None), X, Y)


class TwoTowers(keras.Model):
    """No `call`: `train_step` compares the results of two models, on TensorFlow."""

    def __init__(self):
        super().__init__()
        self.query, self.item = (
            keras.Sequential([layers.Dense(8), layers.Dense(4, name=f"{name}_out")])
            for name in ("query", "item")
        )

    def train_step(self, data):
        with tf.GradientTape() as tape:
            near = keras.ops.sum(self.query(data["query"]) * self.item(data["item"]), -1)
            loss = self.optimizer.scale_loss(keras.ops.mean(keras.ops.square(near - 1.0)))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a tape of TensorFlow")
def test_a_model_without_call_is_built_measured_and_replayed_through_its_train_step():
    draw = np.random.default_rng(0)
    data = {name: draw.normal(size=(32, 6)).astype("float32") for name in ("query", "item")}
    model = TwoTowers()
    model.compile("sgd", run_eagerly=True)
    with pytest.raises(ValueError, match="It has no call: call its parts on tensors first, or fit"):
        plan(model, "mixed_float16")
    callback = MixedPrecision("mixed_float16")
    model.fit(data, batch_size=8, verbose=0, callbacks=[callback])
    assert callback.report.steps == 4
    assert model.query.layers[0].compute_dtype == "float16"
    before = [np.asarray(one) for one in model.variables]
    assert not locate_nonfinite(model, data)
    assert all(
        (np.asarray(new) == old).all() for new, old in zip(model.variables, before, strict=True)
    )
    assert calibrate(model, [(data, None)]).recommended_scale > 1
    found = locate_nonfinite(model, {**data, "item": data["item"] * 1e6})
    assert (found.stage, found.cause) == ("forward", "overflow")
    assert found.layer.endswith(model.item.layers[0].name)

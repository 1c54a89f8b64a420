"""Layers that update a weight in their own code go to float32; all others stay in 16 bits."""

import keras
import numpy as np
import pytest
from keras import layers, ops
from stacks import stack

from tfmp.precision.policy import plan

BOTH = pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
TENSORFLOW = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="in float32 it fails on JAX, too"
)


class Own(layers.Layer):
    """A layer with the code of a function, and weights of its own that begin at 4096."""

    def __init__(self, function, **options):
        super().__init__(**options)
        self.function = function
        self.seen = keras.metrics.Sum(name="seen")

    def build(self, shape):
        options = {"shape": (8,), "initializer": keras.initializers.Constant(4096.0)}
        self.state = self.add_weight(trainable=False, name="state", **options)
        self.wide = self.add_weight(trainable=False, autocast=False, name="wide", **options)
        self.table = self.add_weight(trainable=False, name="table", **options)
        self.scale = self.add_weight(name="scale", **options)

    def call(self, x):
        return self.function(self, x)


def counts(layer, x):
    layer.state.assign_add(ops.ones((8,)))
    return x


def averages(layer, x):
    layer.state.assign(0.9998 * layer.state + 0.0002 * ops.mean(x, axis=0))
    return x - layer.state


def updates_in_a_loop(layer, x):
    layer.state.assign(ops.fori_loop(0, 3, lambda _, state: state + 1.0, layer.state.value))
    return x


def measures(layer, x):
    layer.seen.update_state(4097.0)
    return x


UPDATES = [counts, averages, updates_in_a_loop, measures]


def model_of(*middle, shape=(8,)) -> keras.Model:
    before, out = layers.Dense(8, name="before"), layers.Dense(2, name="out")
    return stack(before, *middle, out, inputs=shape)


def dtypes(model, policy="mixed_float16", **options) -> dict[str, str]:
    return {row.path: row.compute_dtype for row in plan(model, policy, **options).rows}


def row_of(model, path, policy):
    return next(row for row in plan(model, policy).rows if row.path == path)


def trained(policy) -> dict[str, list[np.ndarray]]:
    """The weights of layers with these functions, side by side, after five steps."""
    keras.utils.set_random_seed(7)
    x = keras.Input((8,))
    before = layers.Dense(8, name="before")(x)
    parts = [Own(function, name=function.__name__) for function in UPDATES]
    model = keras.Model(x, layers.Dense(2)(layers.Add()([part(before) for part in parts])))
    plan(model, policy).apply()
    for _ in range(5):
        model(np.ones((2, 8), "float32"), training=True)
    assert model.get_layer("before").compute_dtype == policy.removeprefix("mixed_")
    return {
        part.name: [
            ops.convert_to_numpy(one.value) for one in (*part.weights, *part.seen.variables)
        ]
        for part in parts
    }


@BOTH
def test_states_move_as_in_float32(policy):
    mixed, exact = trained(policy), trained("float32")
    for name, values in mixed.items():
        for one, other in zip(values, exact[name], strict=True):
            # Each of the steps moves a weight by 0.4 at least; the layer before is in 16 bits.
            np.testing.assert_allclose(one, other, rtol=0, atol=0.05, err_msg=name)


@BOTH
def test_the_plan_names_the_state_and_the_dtype(policy):
    own = row_of(model_of(Own(counts, name="own")), "own", policy)
    dtype = policy.removeprefix("mixed_")
    assert own.reason == f"updates its own 'state': {dtype} rounds small changes off"
    assert own.policy == "float32"


def reads_constants(layer, x):
    return x + (layer.scale + layer.table) / 4096


def keeps_the_last_mean(layer, x):
    y = x - layer.state
    layer.state.assign(ops.mean(x, axis=0))
    return y


def begins_anew(layer, x):
    layer.state.assign(ops.zeros((8,)))
    layer.state.assign_add(ops.mean(x, axis=0))
    return x + layer.state


def iterates(layer, x):
    """A power iteration forgets where it began."""
    product = ops.matmul(x, layer.state[:, None] / 4096)
    layer.state.assign(ops.mean(x * product, axis=0))
    return x


def counts_in_float32(layer, x):
    layer.wide.assign_add(ops.ones((8,)))
    return x


@pytest.mark.parametrize(
    "function",
    [reads_constants, keeps_the_last_mean, begins_anew, iterates, counts_in_float32],
)
def test_weights_that_16_bits_do_not_stop_leave_their_layer_there(function):
    assert dtypes(model_of(Own(function, name="own"))) == {
        "/": "float16",
        "before": "float16",
        "own": "float16",
        "out": "float32",
    }


def test_layers_of_keras_keep_their_plan():
    class Trainable(layers.Layer):
        """Code of its own, so that the model is traced, around layers that have states."""

        def __init__(self, **options):
            super().__init__(**options)
            self.norm = layers.BatchNormalization(name="norm")
            self.memory = layers.LSTM(8, stateful=True, name="memory")

        def build(self, shape):
            self.norm.build(shape)
            self.memory.build((shape[0], 1, 8))

        def call(self, x):
            return self.memory(self.norm(x)[:, None])

    inputs = keras.Input((8,), batch_size=2)
    model = keras.Model(inputs, layers.Dense(2, name="out")(Trainable(name="own")(inputs)))
    found = dtypes(model)
    assert found.pop("out") == "float32"
    assert set(found.values()) == {"float16"}


def test_a_model_that_keeps_a_state_in_call_moves_alone():
    class Counting(keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden = layers.Dense(8, name="hidden")
            self.out = layers.Dense(2, name="out")
            self.count = self.add_weight(initializer="zeros", trainable=False, name="count")

        def call(self, x, training=False):
            if training:
                self.count.assign_add(1.0)
            return self.out(self.hidden(x))

    model = Counting()
    model(np.ones((2, 8)))
    assert dtypes(model) == {"/": "float32", "hidden": "float16", "out": "float32"}
    plan(model, "mixed_float16").apply()
    model.count.assign(4096.0)
    model(np.ones((2, 8)), training=True)
    assert float(model.count) == 4097


@TENSORFLOW
def test_a_cell_with_a_state_takes_its_rnn_with_it():
    class Cell(layers.SimpleRNNCell):
        def build(self, shape):
            super().build(shape)
            self.count = self.add_weight(initializer="zeros", trainable=False, name="count")

        def call(self, inputs, states, training=False):
            self.count.assign_add(1.0)
            return super().call(inputs, states, training=training)

    def stack(cell):
        return model_of(layers.RNN(cell(8, name="cell"), name="rnn"), shape=(3, 8))

    found = dtypes(stack(Cell))
    assert (found["rnn"], found["rnn/cell"], found["before"]) == ("float32", "float32", "float16")
    found = dtypes(stack(layers.SimpleRNNCell))
    assert (found["rnn"], found["rnn/cell"]) == ("float16", "float16")

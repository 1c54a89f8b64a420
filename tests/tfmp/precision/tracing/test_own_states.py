"""Layers that update a weight in their own code go to float32; all others stay in 16 bits."""

import keras
import numpy as np
import pytest
from keras import layers, ops

from tfmp.precision.policy import plan

BOTH = pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
TENSORFLOW = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="in float32 it fails on JAX, too"
)


@pytest.fixture(autouse=True)
def seeded():
    keras.utils.set_random_seed(7)


class Own(layers.Layer):
    """A layer with the code of a function, and weights of its own that begin at 4096."""

    def __init__(self, function, **options):
        super().__init__(**options)
        self.function = function
        self.seen = keras.metrics.Sum(name="seen")
        self.held = ops.ones((8,))

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


def shrinks(layer, x):
    layer.state.assign_sub(2e-4 * layer.state)
    return x


def casts_what_it_read(layer, x):
    layer.state.assign(ops.cast(layer.state, "float32") + 1.0)
    return x


def updates_in_a_branch(layer, x):
    is_known = ops.mean(ops.abs(x)) >= 0
    layer.state.assign(ops.cond(is_known, lambda: layer.state + 1.0, lambda: layer.state + 2.0))
    return x


def updates_in_a_loop(layer, x):
    layer.state.assign(ops.fori_loop(0, 3, lambda _, state: state + 1.0, layer.state.value))
    return x


def queues(layer, x):
    layer.state.assign(ops.concatenate([layer.state[1:] + 1.0, ops.mean(x, axis=0)[:1]]))
    return x


def decays_its_kernel(layer, x):
    layer.scale.assign(layer.scale * 0.9999)
    return x * layer.scale


def measures(layer, x):
    layer.seen.update_state(4097.0)
    return x


def counts_and_assigns_a_held_tensor(layer, x):
    layer.state.assign_add(ops.ones((8,)))
    layer.table.assign(layer.held)
    return x


UPDATES = [
    counts,
    averages,
    shrinks,
    casts_what_it_read,
    updates_in_a_branch,
    updates_in_a_loop,
    queues,
    decays_its_kernel,
    measures,
    counts_and_assigns_a_held_tensor,
]


def model_of(*middle, shape=(8,)) -> keras.Model:
    inputs = keras.Input(shape)
    x = layers.Dense(8, name="before")(inputs)
    for layer in middle:
        x = layer(x)
    return keras.Model(inputs, layers.Dense(2, name="out")(x))


def dtypes(model, policy="mixed_float16", **options) -> dict[str, str]:
    return {row.path: row.compute_dtype for row in plan(model, policy, **options).rows}


def row_of(model, path, policy):
    return next(row for row in plan(model, policy).rows if row.path == path)


def trained(function, policy="float32") -> list[np.ndarray]:
    """The weights of a layer with this function after five steps."""
    keras.utils.set_random_seed(7)
    model = model_of(Own(function, name="own"))
    plan(model, policy).apply()
    for _ in range(5):
        model(np.ones((2, 8), "float32"), training=True)
    own = model.get_layer("own")
    return [ops.convert_to_numpy(one.value) for one in (*own.weights, *own.seen.variables)]


@BOTH
@pytest.mark.parametrize("function", UPDATES)
def test_a_state_moves_as_in_float32(function, policy):
    for mixed, exact in zip(trained(function, policy), trained(function), strict=True):
        # Each of the steps moves a weight by 0.4 at least; the layer before is in 16 bits.
        np.testing.assert_allclose(mixed, exact, rtol=0, atol=0.05)


@BOTH
def test_the_plan_names_the_state_and_the_dtype(policy):
    own = row_of(model_of(Own(counts, name="own")), "own", policy)
    dtype = policy.removeprefix("mixed_")
    assert own.reason == f"updates its own 'state': {dtype} rounds small changes off"
    assert own.policy == "float32"


def reads_constants(layer, x):
    return x * layer.scale + layer.table


def keeps_the_last_mean(layer, x):
    y = x - layer.state
    layer.state.assign(ops.mean(x, axis=0))
    return y


def begins_anew(layer, x):
    layer.state.assign(ops.zeros((8,)))
    layer.state.assign_add(ops.mean(x, axis=0))
    return x + layer.state


def assigns_a_constant(layer, x):
    layer.state.assign(np.ones(8, "float32"))
    return x + layer.state


def counts_in_float32(layer, x):
    layer.wide.assign_add(ops.ones((8,)))
    return x


def averages_in_float32(layer, x):
    layer.wide.assign(0.99 * layer.wide + 0.01 * ops.mean(ops.cast(x, "float32"), axis=0))
    return x


@BOTH
@pytest.mark.parametrize(
    "function",
    [
        reads_constants,
        keeps_the_last_mean,
        begins_anew,
        assigns_a_constant,
        counts_in_float32,
        averages_in_float32,
    ],
)
def test_weights_that_16_bits_do_not_stop_leave_their_layer_there(function, policy):
    narrow = policy.removeprefix("mixed_")
    assert dtypes(model_of(Own(function, name="own")), policy) == {
        "/": narrow,
        "before": narrow,
        "own": narrow,
        "out": "float32",
    }


@BOTH
def test_layers_of_keras_keep_their_plan(policy):
    class Trainable(layers.Layer):
        """Code of its own, so that the model is traced, around layers that have states."""

        def __init__(self, **options):
            super().__init__(**options)
            self.norm = layers.BatchNormalization(name="norm")
            self.drop = layers.Dropout(0.1, seed=3, name="drop")
            self.frozen = layers.Dense(8, trainable=False, name="frozen")
            self.memory = layers.LSTM(8, stateful=True, name="memory")

        def build(self, shape):
            for layer in (self.norm, self.drop, self.frozen):
                layer.build(shape)
            self.memory.build((shape[0], 1, 8))

        def call(self, x):
            return self.memory(self.frozen(self.drop(self.norm(x)))[:, None])

    inputs = keras.Input((8,), batch_size=2)
    model = keras.Model(inputs, layers.Dense(2, name="out")(Trainable(name="own")(inputs)))
    found = dtypes(model, policy)
    assert found.pop("out") == "float32"
    assert set(found.values()) == {policy.removeprefix("mixed_")}


class Block(layers.Layer):
    """Layers with kernels, and a count of its own."""

    def __init__(self, inner=None, **options):
        super().__init__(**options)
        self.inner = inner or layers.Dense(8, name="inner")
        self.outer = layers.Dense(8, name="outer")

    def build(self, shape):
        self.inner.build(shape)
        self.outer.build(shape)
        self.count = self.add_weight(initializer="zeros", trainable=False, name="count")

    def call(self, x):
        self.count.assign_add(1.0)
        return self.outer(self.inner(x))


@BOTH
def test_layers_within_a_layer_with_a_state_stay_in_16_bits(policy):
    narrow = policy.removeprefix("mixed_")
    assert dtypes(model_of(Block(name="block")), policy) == {
        "/": narrow,
        "before": narrow,
        "block": "float32",
        "block/inner": narrow,
        "block/outer": narrow,
        "out": "float32",
    }


@BOTH
def test_a_state_is_found_in_code_that_fails_in_16_bits_and_runs_again(policy):
    class Doubtful(Block):
        def call(self, x):
            x = super().call(x)
            if keras.backend.standardize_dtype(x.dtype) != "float32":
                raise ValueError("it takes no 16 bits")
            return x

    found = dtypes(model_of(Doubtful(Own(counts, name="own"), name="block")), policy)
    assert (found["block/own"], found["block/outer"]) == ("float32", "float32")


@TENSORFLOW
def test_a_layer_whose_result_operators_add_to_float32_goes_with_the_state():
    class Residual(Block):
        def call(self, x):
            return x + super().call(x)

    model = model_of(Residual(name="block"))
    found = dtypes(model)
    assert (found["block"], found["block/inner"]) == ("float32", "float16")
    assert found["block/outer"] == "float32"
    plan(model, "mixed_float16").apply()
    model.predict(np.ones((2, 8)), verbose=0)


@BOTH
def test_a_model_that_keeps_a_state_in_call_moves_alone(policy):
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
    narrow = policy.removeprefix("mixed_")
    assert dtypes(model, policy) == {"/": "float32", "hidden": narrow, "out": "float32"}
    plan(model, policy).apply()
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


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        ("mixed_float16", {"keep": {"float16": "own"}}),
        ("float32", {"keep": {"bfloat16": "own"}}),
        ("float16", {}),
    ],
)
def test_a_note_tells_of_a_state_that_the_user_wants_in_16_bits(policy, options):
    model = model_of(Own(counts, name="own"))
    made = plan(model, policy, **options)
    assert {row.path: row.compute_dtype for row in made.rows}["own"] != "float32"
    assert made.notes == (
        "own updates its own 'state' in 16 bits, which round small changes off: keep this layer in "
        "float32",
    )
    assert plan(model_of(Own(reads_constants, name="own")), policy, **options).notes == ()


def test_a_trace_leaves_no_state_behind():
    model = model_of(Own(counts, name="own"))
    plan(model, "mixed_float16")
    assert ops.convert_to_numpy(model.get_layer("own").state).tolist() == [4096.0] * 8

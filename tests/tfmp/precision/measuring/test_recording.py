"""What fails in 16 bits, what makes the outputs, and that nothing is left behind."""

import keras
import numpy as np
import pytest
from backends import only_on
from keras import layers, ops
from own_layer import OwnModel
from stacks import stack

from tfmp.precision.measuring.recording import Recording
from tfmp.precision.policy import plan
from tfmp.precision.reverting import revert


@keras.saving.register_keras_serializable()
class RawConstant(layers.Layer):
    """Multiplies by a raw float32 constant."""

    def call(self, x):
        return times_raw_one(x)


def times_raw_one(x):
    """The backend's own product with a float32 constant, which casts nothing."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.lax.mul(x, jax.numpy.ones(x.shape, "float32"))
    import tensorflow as tf

    return tf.multiply(x, tf.constant(1.0))


class Stubborn(layers.Layer):
    """Takes no other batches than its user's."""

    def call(self, x):
        raise ValueError("expects the sizes of a batch.")

    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape, x.dtype)


class Block(layers.Layer):
    """A residual block with layers of its own."""

    def __init__(self, **options):
        super().__init__(**options)
        self.inner = layers.Dense(8, activation="relu", name="inner")
        self.outer = layers.Dense(8, name="outer")

    def build(self, shape):
        self.inner.build(shape)
        self.outer.build(shape)

    def call(self, x):
        return x + self.outer(self.inner(x))


class Head(Block):
    """Produces an output with its own weight, behind its layers."""

    def build(self, shape):
        super().build(shape)
        self.gain = self.add_weight(shape=(8,), name="gain")

    def call(self, x):
        return ops.softmax(self.outer(self.inner(x)) * self.gain)


def rows_of(model, policy="mixed_float16"):
    return {row.path: row for row in plan(model, policy).rows}


@pytest.mark.parametrize(
    ("layer", "runs"),
    [
        (lambda: layers.Dense(4), 0),
        (RawConstant, 1),
        (lambda: layers.Lambda(lambda x: x), 1),
        (lambda: layers.Dense(4, activation=lambda x: x), 1),
    ],
    ids="keras own lambda activation".split(),
)
def test_only_a_model_with_code_of_its_own_runs(layer, runs, monkeypatch):
    ran = []
    before = Recording.__init__
    monkeypatch.setattr(
        Recording, "__init__", lambda self, *given: ran.append(1) or before(self, *given)
    )
    plan(stack(layer(), 2), "mixed_float16")
    assert len(ran) == runs


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@only_on("tensorflow", "jax", reason="constants of TensorFlow and JAX")
def test_a_layer_with_a_raw_float32_constant_stays_in_float32(policy):
    model = stack(8, RawConstant(name="raw"), 2, inputs=(8,))
    raw = rows_of(model, policy)["raw"]
    dtype = policy.removeprefix("mixed_")
    assert raw.policy == "float32"
    assert raw.reason.startswith(f"failed a dry run in {dtype}: ")
    before = model.predict(np.ones((2, 8)), verbose=0)
    plan(model, policy).apply()
    after = model.predict(np.ones((2, 8)), verbose=0)
    np.testing.assert_allclose(after, before, rtol=2e-2, atol=1e-2)


@only_on("tensorflow", "jax", reason="constants of TensorFlow and JAX")
def test_a_model_whose_own_code_fails_has_the_layer_before_it_switched():
    def noisy(own, x):
        return own.last(times_raw_one(own.second(own.first(x))))

    model = OwnModel(noisy, first=8, second=8, last=2)
    model(np.ones((2, 8)))
    rows = rows_of(model)
    assert rows["first"].compute_dtype == "float16"
    assert rows["second"].policy == "float32"
    assert rows["second"].reason.startswith("failed a dry run in float16: ")
    line = times_raw_one.__code__.co_firstlineno + (5 if keras.backend.backend() == "jax" else 8)
    assert rows["second"].reason.endswith(f", at test_recording.py:{line}")


@pytest.mark.skipif(not hasattr(keras, "remat"), reason="this Keras has none")
def test_layers_whose_results_are_computed_again_are_no_outputs():
    class Remat(Block):
        def call(self, x):
            return x + keras.remat(lambda z: self.outer(self.inner(z)))(x)

    rows = rows_of(stack(Remat(name="block"), 2, inputs=(8,)))
    assert rows["block/inner"].compute_dtype == "float16"


class Cell(layers.Layer):
    """A recurrent cell of the user's own, with a layer in it."""

    state_size = output_size = 8

    def __init__(self, **options):
        super().__init__(**options)
        self.both = layers.Dense(8, activation="tanh", name="both")

    def build(self, shape):
        self.both.build((None, shape[-1] + 8))

    def call(self, x, states):
        result = self.both(ops.concatenate([x, states[0]], axis=-1))
        return result, [result]


class Recurrent(layers.RNN):
    """A recurrent layer of the user's own, around a cell of the user's own."""


@pytest.mark.parametrize(
    ("behind", "reason"), [(layers.Dense(2), "base policy"), (None, "output: the loss sees it")]
)
def test_a_cell_is_an_output_only_where_its_loop_is(behind, reason):
    parts = filter(None, (Recurrent(Cell(name="cell"), name="rnn"), behind))
    model = stack(*parts, inputs=(3, 8))
    assert rows_of(model)["rnn/cell/both"].reason == reason


def test_a_cell_begins_in_the_dtype_of_the_layer_that_makes_its_states():
    model = stack(Recurrent(Cell(name="cell"), name="rnn"), 2, inputs=(3, 8))
    plan(model, "mixed_float16", keep_float32="both").apply()
    assert model.predict(np.ones((2, 3, 8)), verbose=0).dtype == "float32"
    assert model.get_layer("rnn").cell.compute_dtype == "float32"


@pytest.mark.parametrize("infers", [True, False])
@only_on("tensorflow", "jax", reason="constants of TensorFlow and JAX")
def test_code_that_runs_without_training_alone_is_run_too(infers):
    class Gate(layers.Layer):
        def call(self, x, training=False):
            return x if training else times_raw_one(x) if infers else self.missing

    def gated(own, x):
        return own.out(own.gate(own.hidden(x), training=True))

    model = OwnModel(gated, hidden=8, gate=Gate(name="gate"), out=2)
    model(np.ones((2, 8)))
    assert rows_of(model)["gate"].compute_dtype == ("float32" if infers else "float16")


def test_a_batch_whose_entries_are_the_arguments_by_name():
    class Named(OwnModel):
        def call(self, left, right):
            return self.out(self.hidden(left) + self.hidden(right))

    model, x = Named(None, hidden=8, out=2), np.ones((2, 8), "float32")
    batch = {"right": x, "left": x}
    model(**batch)
    assert not plan(model, "mixed_float16", data=batch).notes


def test_a_container_whose_own_code_makes_the_output_stays_in_float32_too():
    rows = rows_of(stack(8, Block(name="block"), Head(name="head")))
    assert rows["head"].policy == "float32"  # its own weight is multiplied in
    assert rows["head/outer"].policy == "float32"
    assert rows["head/inner"].policy == "mixed_float16"
    assert rows["block"].policy == rows["block/outer"].policy == "mixed_float16"


def test_a_subclassed_model_with_named_inputs_and_several_outputs():
    def two(own, inputs):
        x = own.body(ops.mean(own.table(inputs["ids"]), axis=1) * inputs["weight"])
        return {"left": own.left(x), "right": ops.sigmoid(own.right(x))}

    model = OwnModel(two, table=layers.Embedding(9, 8), body=8, left=2, right=2)
    model({"ids": np.zeros((2, 5), "int32"), "weight": np.ones((2, 1), "float32")})
    rows = rows_of(model)
    assert rows["body"].compute_dtype == "float16"
    assert rows["left"].policy == rows["right"].policy == "float32"


@pytest.mark.parametrize("is_cast", [False, True])
def test_a_model_is_float32_only_where_it_would_return_16_bits(is_cast):
    def forecast(own, x):
        """Blocks that explain what those before them left, as N-BEATS has them."""
        hidden = own.hidden(x)
        made = own.first(hidden) + own.second(own.late(x - own.back(hidden)))
        return ops.cast(made, own.compute_dtype) if is_cast else made

    model = OwnModel(forecast, hidden=8, back=8, first=8, late=8, second=8)
    model(np.ones((2, 8)))
    wide = {path for path, row in rows_of(model).items() if row.compute_dtype == "float32"}
    assert wide >= {"first", "second"}
    assert ("/" in wide) is is_cast
    assert is_cast or "back" not in wide


def test_an_input_that_a_batch_leaves_out_is_none_in_the_run():
    def optional(own, inputs):
        x = own.hidden(inputs["x"])
        return own.out(x if inputs.get("more") is None else x + inputs["more"])

    model = OwnModel(optional, hidden=8, out=1)
    model.compile("sgd", "mse")
    model._symbolic_build(data_batch=({"x": np.ones((2, 4)), "more": None}, np.ones((2, 1))))
    made = plan(model, "mixed_float16")
    assert [row.compute_dtype for row in made.rows[1:]] == ["float16", "float32"]
    assert made.notes == ()


@pytest.mark.parametrize(
    ("penalty", "fits"),
    [
        (lambda x: ops.mean(ops.square(x)), True),
        (lambda x: 100 * ops.sum(ops.abs(x)), False),  # a sum over a batch of more rows
        (lambda x: ops.mean(ops.exp(ops.abs(x))), False),
    ],
    ids="mean sum exp".split(),
)
def test_a_layer_is_float32_if_what_it_adds_to_the_loss_does_not_fit_in_fp16(penalty, fits):
    class Penalty(layers.Layer):
        def call(self, x):
            self.add_loss(penalty(x))
            return x

    rows = rows_of(stack(8, Penalty(name="penalty"), 2))
    own = rows["penalty"]
    assert own.compute_dtype == ("float16" if fits else "float32")
    assert fits or "infinite" in own.reason


def penalized(loss_dtype=None, factor=1.0) -> keras.Model:
    """A model that adds losses in its own code, one of them for each sample."""

    def adding(own, x):
        x = own.body(own.early(x))
        seen = ops.cast(x, own.loss_dtype) if own.loss_dtype else x
        own.add_loss(ops.mean(seen))
        own.add_loss(factor * ops.sum(ops.square(seen), axis=-1))
        return own.out(own.late(x))

    model = OwnModel(adding, early=8, body=8, late=8, out=2)
    model.loss_dtype = loss_dtype
    model(np.ones((2, 8)))
    return model


def test_the_layer_that_an_added_loss_is_computed_from_is_float32_unless_it_fits_or_is_cast():
    rows = rows_of(penalized(factor=100.0))
    reason = "feeds the model, which is infinite or NaN in float16 on numbers"
    assert rows["body"].reason.startswith(reason)
    assert {rows[name].compute_dtype for name in ("/", "early", "late")} == {"float16"}
    for fine in ({}, {"factor": 100.0, "loss_dtype": "float32"}):
        assert rows_of(penalized(**fine))["body"].compute_dtype == "float16"


def test_a_model_that_adds_losses_has_them_in_float32_until_it_is_reverted():
    model = penalized()
    model.compile("sgd", "mse")
    x = np.random.default_rng(0).standard_normal((8, 8)).astype("float32")
    exact = model.evaluate(x, x[:, :2], verbose=0)
    model.loss_dtype = "float16"
    plan(model, "mixed_float16").apply()
    assert model.evaluate(x, x[:, :2], verbose=0) == pytest.approx(exact, rel=0.01)
    assert "add_loss" in vars(model)
    revert(model)
    assert "add_loss" not in vars(model)
    model.loss_dtype = None
    assert model.evaluate(x, x[:, :2], verbose=0) == exact


def test_a_model_that_cannot_run_keeps_its_own_code_in_float32():
    made = plan(stack(layers.Dense(8, name="hidden"), Stubborn(name="own")), "mixed_float16")
    assert made.notes[0].startswith("the model could not be run, so its own code stays float32")
    assert "expects the sizes of a batch" in made.notes[0]
    assert not made.notes[0].endswith(".")
    rows = {row.path: row for row in made.rows}
    assert rows["own"].policy == "float32"
    assert rows["hidden"].compute_dtype == "float16"


@only_on("tensorflow", "jax", reason="constants of TensorFlow and JAX")
def test_a_plan_leaves_nothing_behind():
    class Random(layers.Layer):
        def __init__(self, **options):
            super().__init__(**options)
            self.seeds = keras.random.SeedGenerator(1)
            self.norm = layers.BatchNormalization()

        def build(self, shape):
            self.norm.build(shape)

        def call(self, x, training=None):
            self.add_loss(ops.mean(x))
            noise = keras.random.normal((8,), seed=self.seeds, dtype=self.compute_dtype)
            return self.norm(x + noise, training=training)

    model = stack(8, Random(), RawConstant(), 2, inputs=(8,))
    model(np.ones((2, 8)))
    state = [ops.convert_to_numpy(variable.value).copy() for variable in model.variables]
    attributes = {layer.name: dict(vars(layer)) for layer in model._flatten_layers()}
    nodes = [len(layer._inbound_nodes) for layer in model._flatten_layers()]
    plan(model, "mixed_float16")
    for before, variable in zip(state, model.variables, strict=True):
        np.testing.assert_array_equal(before, ops.convert_to_numpy(variable.value))
    for layer in model._flatten_layers():
        assert vars(layer).keys() == attributes[layer.name].keys()
        assert layer.dtype_policy.name == "float32"
    assert nodes == [len(layer._inbound_nodes) for layer in model._flatten_layers()]


class Gather(layers.Layer):
    """Takes the values at one end of each edge of a graph; edges are whole numbers."""

    def call(self, nodes, edges):
        return ops.take(nodes, edges, axis=0)[: edges.shape[0] - 1]


def test_graphs_whose_edges_are_whole_numbers_are_run():
    def messages(own, inputs):
        return own.out(own.gather(own.hidden(inputs[0]), inputs[1]))

    model = OwnModel(messages, hidden=8, gather=Gather(), out=2)
    model([ops.ones((4, 3)), ops.ones((7,), dtype="int32")])
    made = plan(model, "mixed_float16")
    assert made.notes == ()
    rows = {row.path: row.compute_dtype for row in made.rows}
    assert (rows["hidden"], rows["out"]) == ("float16", "float32")


@only_on("tensorflow", "jax", reason="constants of TensorFlow and JAX")
def test_one_part_that_cannot_run_does_not_hold_the_others_back():
    class Pair(keras.Model):
        """As autoencoders and GANs are trained: by a train_step that calls the parts."""

        def __init__(self, first, second):
            super().__init__()
            self.first, self.second = first, second

    def part(name, *middle):
        body = [layers.Dense(8, name="body"), *middle, layers.Dense(2, name="end")]
        return keras.Sequential([layers.Input((8,)), *body], name=name)

    first, second = part("first", Stubborn(name="own")), part("second", RawConstant(name="raw"))
    made = plan(Pair(first, second), "mixed_float16")
    rows = {row.path: row for row in made.rows}
    dtypes = {row.path: row.compute_dtype for row in made.rows}
    assert (dtypes["second/body"], dtypes["second/raw"]) == ("float16", "float32")
    assert dtypes["first/end"] == dtypes["second/end"] == "float32"
    reason = "failed a dry run in 16 bits: first could not be run"
    assert rows["first/own"].reason == reason
    assert rows["first/body"].compute_dtype == "float16"
    assert made.notes[0].startswith("first could not be run")


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="derivatives by a tape")
def test_a_model_that_takes_derivatives_of_its_layers_is_planned():
    import tensorflow as tf

    def slope(own, x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = own.last(own.first(x))
            slope = inner.gradient(y, x)
        return ops.concatenate([ops.cast(y, x.dtype), outer.gradient(slope, x)], -1)

    model = OwnModel(slope, first=layers.Dense(8, "tanh"), last=1)
    model(np.ones((8, 1), "float32"))
    # The derivatives are of all layers, and the loss sees them.
    assert {row.policy for row in plan(model, "mixed_float16").rows} == {"float32"}

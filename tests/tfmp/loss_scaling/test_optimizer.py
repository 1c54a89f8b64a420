"""LossScaleOptimizer on TensorFlow: what it applies, what it skips, what it refuses."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfmp.loss_scaling.optimizer import LossScaleOptimizer, UnscaledLossWarning
from tfmp.loss_scaling.strategies import DynamicLossScale, ScheduledLossScale
from tfmp.loss_scaling.telemetry import read_counters

FINITE, OVERFLOW, INVALID = 1.0, float("inf"), float("nan")


def variables(*values: list[float]) -> list[keras.Variable]:
    return [keras.Variable(value, dtype="float32") for value in values]


def step(optimizer, targets, *gradients) -> None:
    """One step with gradients given as those of the unscaled loss."""
    scale = optimizer.scale_loss(tf.constant(1.0))
    scaled = [None if g is None else tf.convert_to_tensor(g, tf.float32) * scale for g in gradients]
    optimizer.apply(scaled, targets)


def values(targets) -> list[list[float]]:
    return [target.numpy().tolist() for target in targets]


# --- applying and skipping ---


@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.optimizers.AdamW(0.1, weight_decay=0.01, global_clipnorm=0.01),
        lambda: keras.optimizers.Adam(0.1, clipvalue=0.01, gradient_accumulation_steps=2),
        lambda: keras.optimizers.SGD(
            keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5),
            clipnorm=0.01,
            use_ema=True,
            ema_overwrite_frequency=2,
        ),
        pytest.param(
            lambda: _multi_optimizer(),
            marks=pytest.mark.skipif(
                not hasattr(keras.optimizers, "MultiOptimizer"), reason="this Keras has none"
            ),
        ),
    ],
    ids=["adamw", "adam", "sgd", "multi"],
)
def test_applied_steps_equal_those_of_the_inner_optimizer_alone(make):
    gradients = np.random.default_rng(3).standard_normal((6, 2, 3)).astype("float32")
    alone, wrapped = variables([1.0] * 3, [2.0] * 3), variables([1.0] * 3, [2.0] * 3)
    bare, optimizer = make(), LossScaleOptimizer(make(), DynamicLossScale(growth_interval=2))
    for a, b in gradients:
        bare.apply([tf.constant(a), tf.constant(b)], alone)
        step(optimizer, wrapped, a, b)
    assert int(optimizer.inner_optimizer._iterations) == 6
    # Powers of two scale without rounding, so that nothing but equality will do.
    assert values(wrapped) == values(alone)


def _multi_optimizer() -> keras.optimizers.Optimizer:
    both = keras.optimizers.Adam(0.1), keras.optimizers.SGD(0.1)
    kinds = {}
    return keras.optimizers.MultiOptimizer(
        lambda variable: kinds.setdefault(variable.path, both[len(kinds) % 2])
    )


@pytest.mark.parametrize(("bad", "compiled"), [(OVERFLOW, True), (INVALID, False)])
def test_a_skipped_step_changes_neither_weights_nor_moments_nor_iterations(bad, compiled):
    targets = variables([1.0, 2.0], [3.0])
    optimizer = LossScaleOptimizer(keras.optimizers.Adam(0.1))
    optimizer.build(targets)
    one = tf.function(lambda g: step(optimizer, targets, g, [1.0]), jit_compile=compiled)
    one(tf.constant([1.0, 1.0]))
    before = [v.numpy().tolist() for v in optimizer.inner_optimizer.variables], values(targets)
    one(tf.constant([1.0, bad]))
    after = [v.numpy().tolist() for v in optimizer.inner_optimizer.variables], values(targets)
    assert after == before
    assert float(optimizer.dynamic_scale) == 2.0**14
    one(tf.constant([1.0, 1.0]))
    assert int(optimizer.iterations) == 2
    assert values(targets) != before[1]


def test_a_scheduled_scale_follows_applied_and_skipped_steps():
    targets = variables([0.0])
    optimizer = LossScaleOptimizer(
        keras.optimizers.SGD(0.1), ScheduledLossScale({0: 8.0, 2: 32.0, 3: 16.0})
    )
    scales = []
    for gradient in (FINITE, INVALID, FINITE, FINITE):
        scales.append(float(optimizer.scale_loss(1.0)))
        step(optimizer, targets, [gradient])
    assert scales == [8.0, 8.0, 32.0, 16.0]
    counters = read_counters(optimizer)
    assert (counters.growths, counters.backoffs) == (1, 1)


def test_variables_without_gradients_and_subsets_of_variables_are_applied():
    targets = variables([1.0], [1.0], [1.0])
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0))
    optimizer.build(targets)
    with pytest.warns(UserWarning, match="Gradients do not exist"):
        step(optimizer, targets, [0.5], None, [0.25])
    step(optimizer, targets[1:2], [0.5])
    step(optimizer, targets[1:2], [INVALID])
    assert values(targets) == [[0.5], [0.5], [0.75]]
    assert [one.variable for one in read_counters(optimizer).offenders] == [targets[1].path]


def test_complex_weights_are_applied_and_checked():
    weight = keras.Variable([1 + 1j], dtype="complex64")
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.5), loss_scale=2.0)
    optimizer.scale_loss(tf.constant(1.0))
    for gradient in (2 - 2j, complex("nan")):
        optimizer.apply([tf.constant([gradient], "complex64")], [weight])
    assert values([weight]) == [[0.5 + 1.5j]]
    assert read_counters(optimizer).skipped_steps == 1


def test_gradients_that_forgot_their_shape_are_applied():
    variable = keras.Variable(np.ones(3, "float32"))
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0), 4.0)
    optimizer.build([variable])

    @tf.function
    def step():
        optimizer.scale_loss(tf.constant(1.0))
        gradient = tf.py_function(lambda: tf.constant([4.0, 8.0, 12.0]), [], tf.float32)
        assert gradient.shape.rank is None
        optimizer.apply([gradient], [variable])

    step()
    np.testing.assert_array_equal(variable.numpy(), [0.0, -1.0, -2.0])


def test_scale_loss_gives_float32_where_the_scale_would_overflow_float16():
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(), 2.0**20)
    scaled = optimizer.scale_loss(tf.constant(2.0, tf.float16))
    assert scaled.dtype == tf.float32
    assert float(scaled) == 2.0**21
    assert optimizer.scale_loss(tf.constant(2.0, tf.float64)).dtype == tf.float64


# --- sparse gradients ---


def computed_shapes(graph) -> set[tuple[int | None, ...]]:
    """Shapes of everything that ops other than variable reads put out, branches included."""
    shapes = set()
    for op in graph.get_operations():
        if op.type not in ("ReadVariableOp", "ResourceGather", "Placeholder", "Identity"):
            shapes |= {tuple(out.shape) for out in op.outputs if out.shape.rank is not None}
        for name in ("then_branch", "else_branch"):
            if name in op.node_def.attr:
                shapes |= computed_shapes(graph._get_function(op.get_attr(name).name).graph)
    return shapes


@pytest.mark.parametrize("scale", [2.0**10, 2.0**-3], ids=["isfinite", "bounded"])
def test_sparse_gradients_are_never_made_dense(scale):
    table = keras.Variable(np.ones((1000, 4), "float32"))
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.5), scale)
    optimizer.build([table])

    @tf.function
    def train(ids, factor):
        with tf.GradientTape() as tape:
            loss = optimizer.scale_loss(tf.reduce_sum(tf.gather(table.value, ids)) * factor)
        optimizer.apply(tape.gradient(loss, [table.value]), [table])

    graph = train.get_concrete_function(tf.constant([3, 3]), tf.constant(1.0)).graph
    assert (2, 4) in computed_shapes(graph)
    assert (1000, 4) not in computed_shapes(graph)
    train(tf.constant([3, 3]), tf.constant(1.0))
    train(tf.constant([7, 3]), tf.constant(INVALID))
    assert table.numpy().sum() == 4000 - 4 * 2 * 0.5
    assert read_counters(optimizer).skipped_steps == 1


# --- wrapping ---


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: LossScaleOptimizer("adam"),
            TypeError,
            r"expects a keras\.optimizers\.Optimizer .* received 'adam' of type str\. For a name",
        ),
        (
            lambda: LossScaleOptimizer(LossScaleOptimizer(keras.optimizers.SGD())),
            ValueError,
            r"received a LossScaleOptimizer: gradients would be divided twice\. Wrap its inner",
        ),
        (
            lambda: LossScaleOptimizer(keras.optimizers.SGD(loss_scale_factor=64.0)),
            ValueError,
            r"received loss_scale_factor=64\.0\. Set it to None and pass loss_scale=64\.0 here",
        ),
    ],
)
def test_what_cannot_be_wrapped_is_refused_with_the_fix(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_an_inner_optimizer_built_for_other_variables_is_refused():
    inner = keras.optimizers.SGD()
    inner.build(variables([1.0]))
    stranger = keras.Variable([1.0], name="stranger")
    with pytest.raises(ValueError, match=r"does not know 1 of the 1 given, such as 'stranger'\."):
        LossScaleOptimizer(inner).build([stranger])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda o, v: o.apply([tf.ones(1)]), r"expects a built optimizer when no variables"),
        (lambda o, v: o.apply([tf.ones(1)] * 2, v), r"received 2 gradients for 1 variables"),
        (lambda o, v: o.stateless_apply([], [], []), r"not supported with the TensorFlow backend"),
    ],
)
def test_calls_that_cannot_work_say_so(call, message):
    with pytest.raises(ValueError, match=message):
        call(LossScaleOptimizer(keras.optimizers.SGD()), variables([1.0]))


# --- a loss that nothing scaled ---


def test_a_loss_that_a_loop_scales_by_hand_is_scaled():
    targets = variables([1.0])
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.5))
    optimizer.build(targets)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.apply([optimizer.dynamic_scale * tf.ones(1)], targets)
    assert values(targets) == [[0.5]]


def test_the_watch_starts_again_for_a_new_trace():
    targets = variables([1.0])
    optimizer = LossScaleOptimizer(keras.optimizers.SGD())
    assert optimizer.loss_was_scaled is None
    step(optimizer, targets, [1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.apply([tf.ones(1)], targets)  # gradients may come from another function
    optimizer.watch_scale_loss()
    with pytest.warns(UnscaledLossWarning):
        tf.function(lambda: optimizer.apply([tf.ones(1)], targets))()

"""Names, arguments and files of Keras's loss scaling, and PyTorch's order of steps."""

import unittest

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.optimizers import loss_scale_optimizer_test as keras_tests

import tfmp
from tfmp.loss_scaling.optimizer import LossScaleOptimizer
from tfmp.loss_scaling.strategies import DynamicLossScale, StaticLossScale
from tfmp.loss_scaling.telemetry import read_counters

# Of Keras's own tests, those that this class fails, with the reason.
DIFFERENT = {
    "test_finite_step_with_inner_loss_scale": "an inner loss scale is an error: Keras drops it "
    "without a word, and users believe that it is in force",
    "test_serialization": "the configuration has `loss_scale`, because Keras's two numbers "
    "cannot tell static and scheduled scales",
}


def sgd(**options) -> keras.optimizers.Optimizer:
    return keras.optimizers.SGD(0.5, **options)


# --- Keras's own tests ---


@pytest.mark.filterwarnings("ignore:LossScaleOptimizer received gradients")
def test_keras_own_tests_pass_but_for_those_with_a_reason(monkeypatch):
    monkeypatch.setattr(keras_tests, "LossScaleOptimizer", LossScaleOptimizer)
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromModule(keras_tests).run(result)
    failed = {
        case.id().rpartition(".")[2].removesuffix("_stateful"): text
        for case, text in [*result.failures, *result.errors]
    }
    assert result.testsRun >= 29
    assert set(failed) == set(DIFFERENT), failed


# --- Keras's arguments ---


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"dynamic_growth_steps": 7}, DynamicLossScale(growth_interval=7)),
        ({"initial_scale": 0.25}, DynamicLossScale(initial=0.25, min_scale=0.25)),
        ({"initial_scale": 2.0**30}, DynamicLossScale(initial=2.0**30, max_scale=2.0**30)),
        ({"dynamic": True, "loss_scale": 8.0}, StaticLossScale(8.0)),
        ({"dynamic": False, "initial_scale": 128.0}, StaticLossScale(128.0)),
    ],
)
def test_keras_arguments_make_a_strategy(arguments, expected):
    assert LossScaleOptimizer(sgd(), **arguments).loss_scale == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"initial_scale": 8.0, "loss_scale": 4.0}, r"received both: loss_scale=4\.0 and initial"),
        ({"dynamic": False}, r"dynamic=False with initial_scale .* Pass loss_scale=1024\.0"),
        ({"dynamic": 1}, r"\(dynamic=\.\.\.\) expects True or False; received 1"),
        ({"clipnorm": 1.0}, r"clipnorm on the `inner_optimizer`, received clipnorm=1\.0"),
        ({"growth": 2}, r"or Keras's initial_scale, .* received arguments: `growth`"),
    ],
)
def test_other_arguments_are_refused_with_the_next_step(arguments, message):
    with pytest.raises(ValueError, match=message):
        LossScaleOptimizer(sgd(), **arguments)


def test_keras_attributes_have_the_strategys_values():
    optimizer = LossScaleOptimizer(sgd(), initial_scale=64.0, dynamic_growth_steps=7)
    assert (optimizer.initial_scale, optimizer.dynamic_growth_steps) == (64.0, 7)
    assert LossScaleOptimizer(sgd(), 64.0).dynamic_growth_steps is None


# --- Keras's files ---

KERAS_3 = keras.optimizers.LossScaleOptimizer(sgd(momentum=0.9), 64.0, 7).get_config()
INNER = {"class_name": "SGD", "config": {"name": "SGD", "learning_rate": 0.5, "momentum": 0.9}}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (KERAS_3, DynamicLossScale(initial=64.0, growth_interval=7)),
        (
            {
                "inner_optimizer": INNER,
                "dynamic": False,
                "initial_scale": 64.0,
                "dynamic_growth_steps": None,
            },
            StaticLossScale(64.0),
        ),
    ],
    ids=["keras_3", "keras_2"],
)
def test_keras_configurations_are_read(config, expected):
    optimizer = LossScaleOptimizer.from_config(config)
    assert optimizer.loss_scale == expected
    assert optimizer.inner_optimizer.momentum == 0.9
    assert LossScaleOptimizer.from_config(optimizer.get_config()).loss_scale == expected


# --- Keras 2's methods, and PyTorch's order ---


def gradients_of(optimizer, target, factor: float = 3.0):
    with tf.GradientTape() as tape:
        scaled = optimizer.get_scaled_loss(factor * tf.reduce_sum(target.value))
    return tape.gradient(scaled, [target.value])


def test_keras_2_loop_takes_the_same_step():
    target = keras.Variable([1.0, 2.0])
    optimizer = LossScaleOptimizer(sgd())
    gradients = optimizer.get_unscaled_gradients(gradients_of(optimizer, target))
    np.testing.assert_array_equal(gradients[0], [3.0, 3.0])
    optimizer.apply_gradients(zip(gradients, [target], strict=True))
    np.testing.assert_array_equal(target, [-0.5, 0.5])


def test_get_scaled_loss_of_a_function_is_a_function():
    optimizer = LossScaleOptimizer(sgd(), 8.0)
    assert float(optimizer.get_scaled_loss(lambda: tf.constant(2.0))()) == 16.0


def test_gradients_are_unscaled_clipped_and_applied_as_in_float32():
    target = keras.Variable([3.0, -4.0])
    optimizer = LossScaleOptimizer(sgd(), 1000.0)
    optimizer.build([target])
    norms = []

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            scaled = optimizer.scale_loss(tf.reduce_sum(tf.square(target.value)) / 2)
        gradients = optimizer.unscale(tape.gradient(scaled, [target.value]), [target])
        clipped, norm = tf.clip_by_global_norm(gradients, 1.0)
        optimizer.apply(clipped, [target])
        return norm

    norms = [float(step()) for _ in range(2)]
    np.testing.assert_allclose(norms, [5.0, 4.5], rtol=1e-6)
    np.testing.assert_allclose(target, [2.4, -3.2], rtol=1e-6)


def test_a_norm_can_be_logged_and_the_scaled_gradients_applied():
    target = keras.Variable([1.0, 2.0])
    optimizer = LossScaleOptimizer(sgd())
    scaled = gradients_of(optimizer, target)
    assert float(tf.linalg.global_norm(optimizer.unscale(scaled))) == pytest.approx(18**0.5)
    optimizer.apply(scaled, [target])
    np.testing.assert_array_equal(target, [-0.5, 0.5])


def test_a_clipped_infinity_still_skips_the_step():
    target = keras.Variable([1.0, 2.0])
    optimizer = LossScaleOptimizer(sgd())
    optimizer.scale_loss(tf.constant(1.0))
    (gradient,) = optimizer.unscale([tf.constant([np.inf, 1.0])], [target])
    optimizer.apply([tf.clip_by_value(gradient, -1.0, 1.0)], [target])
    np.testing.assert_array_equal(target, [1.0, 2.0])
    assert read_counters(optimizer).skipped_steps == 1


def test_unscaling_twice_is_an_error_and_the_next_step_is_not():
    target = keras.Variable([1.0, 2.0])
    optimizer = LossScaleOptimizer(sgd())
    gradients = optimizer.unscale(gradients_of(optimizer, target))
    with pytest.raises(ValueError, match=r"a second: gradients would be divided twice\. Call app"):
        optimizer.unscale(gradients)
    gradients = optimizer.unscale(gradients_of(optimizer, target))  # the first step was given up
    optimizer.apply(gradients, [target])
    gradients = optimizer.unscale(gradients_of(optimizer, target))
    optimizer.apply(gradients, [target])
    np.testing.assert_array_equal(target, [-2.0, -1.0])


def test_sparse_and_missing_gradients_are_unscaled():
    optimizer = LossScaleOptimizer(sgd(), 4.0)
    table, unused = keras.Variable(np.ones((3, 1))), keras.Variable([1.0])
    rows = tf.IndexedSlices(tf.constant([[8.0]]), tf.constant([1]), tf.constant([3, 1]))
    assert optimizer.scale_loss(1.0) == 4.0
    sparse, missing = optimizer.unscale([rows, None], [table, unused])
    assert isinstance(sparse, tf.IndexedSlices)
    assert missing is None
    with pytest.warns(UserWarning, match="Gradients do not exist"):
        optimizer.apply([sparse, missing], [table, unused])
    np.testing.assert_array_equal(table, [[1.0], [0.0], [1.0]])


# --- TensorFlow's graph rewrite ---


def test_the_graph_rewrite_is_switched_on_and_off_with_a_scaled_optimizer():
    before = tf.config.optimizer.get_experimental_options()
    try:
        optimizer = tfmp.enable_mixed_precision_graph_rewrite(sgd(), 8.0)
        assert optimizer.loss_scale == StaticLossScale(8.0)
        assert tf.config.optimizer.get_experimental_options()["auto_mixed_precision"]
        tfmp.disable_mixed_precision_graph_rewrite()
        assert not tf.config.optimizer.get_experimental_options()["auto_mixed_precision"]
    finally:
        off = dict.fromkeys(tf.config.optimizer.get_experimental_options(), False)
        tf.config.optimizer.set_experimental_options({**off, **before})


def test_an_optimizer_that_is_refused_switches_nothing_on():
    with pytest.raises(ValueError, match="gradients would be divided twice"):
        tfmp.enable_mixed_precision_graph_rewrite(LossScaleOptimizer(sgd()))
    assert not tf.config.optimizer.get_experimental_options().get("auto_mixed_precision")


def test_the_graph_rewrite_is_refused_on_another_backend(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(ValueError, match=r"received the backend 'jax'\. Use tfmp\.MixedPrecision"):
        tfmp.enable_mixed_precision_graph_rewrite(sgd())


# --- attributes of the inner optimizer ---


def test_attributes_of_the_inner_optimizer_are_read_and_set_through():
    inner = sgd(momentum=0.25, weight_decay=0.125)
    optimizer = LossScaleOptimizer(inner)
    assert (optimizer.momentum, optimizer.weight_decay, optimizer.clipnorm) == (0.25, 0.125, None)
    optimizer.momentum, optimizer.weight_decay, optimizer.clipvalue = 0.5, 0.25, 1.0
    assert (inner.momentum, inner.weight_decay, inner.clipvalue) == (0.5, 0.25, 1.0)
    optimizer.note = "of the wrapper"
    assert not hasattr(inner, "note")


def test_an_attribute_that_neither_has_is_missed():
    inner = sgd()
    inner._hidden = 1
    optimizer = LossScaleOptimizer(inner)
    for name in ("beta_1", "_hidden"):
        with pytest.raises(AttributeError, match=f"'LossScaleOptimizer' object has no .*{name}"):
            getattr(optimizer, name)
    assert not hasattr(LossScaleOptimizer.__new__(LossScaleOptimizer), "momentum")


def test_names_that_the_wrapper_uses_itself_stay_its_own():
    names = ("loss_scale", "counters", "step_counter", "dynamic_scale", "held_as")
    inner, target = sgd(), keras.Variable([1.0])
    for name in names:
        setattr(inner, name, "inner")
    optimizer = LossScaleOptimizer(inner, loss_scale=8.0)
    assert not hasattr(optimizer, "counters")  # not built yet
    optimizer.apply([optimizer.scale_loss(tf.constant([0.5]))], [target])
    np.testing.assert_array_equal(target, [0.75])
    assert [getattr(inner, name) for name in names] == ["inner"] * len(names)
    assert optimizer.loss_scale == StaticLossScale(8.0)

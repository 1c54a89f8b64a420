"""attach: the optimizer gets its wrapper with its moments kept, and gives it back."""

import re

import keras
import numpy as np
import pytest
from backends import only_on
from keras import ops
from stacks import stack

from tfmp import DynamicLossScale, LossScaleOptimizer, StaticLossScale, revert
from tfmp.loss_scaling.attach import attach_loss_scale


def model_with(optimizer, trained=True) -> keras.Model:
    model = stack(3, 1, optimizer=optimizer, loss="mse")
    if trained:
        model.fit(np.ones((8, 4)), np.ones((8, 1)), batch_size=2, verbose=0)
    return model


def as_arrays(optimizer) -> list[np.ndarray]:
    return [np.asarray(ops.convert_to_numpy(v.value)) for v in optimizer.variables]


def test_a_trained_optimizer_keeps_its_moments_and_iterations():
    model = model_with("adam")
    adam, variables, values = (
        model.optimizer,
        model.optimizer.variables,
        as_arrays(model.optimizer),
    )
    attach_loss_scale(model, "dynamic")
    wrapped = model.optimizer
    assert isinstance(wrapped, LossScaleOptimizer)
    assert wrapped.inner_optimizer is adam
    assert int(ops.convert_to_numpy(wrapped.iterations)) == 4
    assert all(now is old for now, old in zip(adam.variables, variables, strict=True))
    for now, old in zip(as_arrays(adam), values, strict=True):
        np.testing.assert_array_equal(now, old)


def test_revert_gives_back_the_very_same_optimizer():
    model = model_with("adam")
    adam, in_config = model.optimizer, model.get_compile_config()["optimizer"]
    attach_loss_scale(model, "dynamic")
    assert model.get_compile_config()["optimizer"]["registered_name"] == "tfmp>LossScaleOptimizer"
    revert(model)
    assert model.optimizer is adam
    assert (
        model.get_compile_config()["optimizer"]["class_name"] == "Adam" == in_config["class_name"]
    )
    LossScaleOptimizer(adam).unwrap()  # free to be wrapped again


def test_an_optimizer_compiled_since_is_left_alone_by_revert():
    model = model_with("adam", trained=False)
    attach_loss_scale(model, "dynamic")
    model.compile("sgd", "mse")
    sgd = model.optimizer
    revert(model)
    assert model.optimizer is sgd


def test_another_strategy_rewraps_what_was_attached_and_the_same_does_not():
    model = model_with("sgd", trained=False)
    sgd = model.optimizer
    attach_loss_scale(model, 8.0)
    first = model.optimizer
    attach_loss_scale(model, 8.0)
    assert model.optimizer is first
    attach_loss_scale(model, "dynamic")
    assert model.optimizer.loss_scale == DynamicLossScale()
    attach_loss_scale(model, StaticLossScale(4.0))
    assert model.optimizer.loss_scale == StaticLossScale(4.0)
    assert model.optimizer.inner_optimizer is sgd
    revert(model)
    assert model.optimizer is sgd


def test_a_wrapper_that_the_user_compiled_yields_to_another_strategy_and_comes_back():
    mine = LossScaleOptimizer(keras.optimizers.SGD(0.1), 16.0)
    model = model_with(mine)
    attach_loss_scale(model, "dynamic")
    assert model.optimizer is mine
    attach_loss_scale(model, 4.0)
    assert model.optimizer is not mine
    assert model.optimizer.inner_optimizer is mine.inner_optimizer
    revert(model)
    assert model.optimizer is mine
    with pytest.raises(ValueError, match=r"which another .* already drives.* unwrap\(\) first"):
        LossScaleOptimizer(mine.inner_optimizer)


def test_keras_own_wrapper_is_replaced_and_its_scale_taken_over():
    keras_own = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.1), initial_scale=64.0, dynamic_growth_steps=3
    )
    model = model_with(keras_own)  # four steps: it has grown once
    attach_loss_scale(model, "dynamic")
    ours = model.optimizer
    assert ours.loss_scale == DynamicLossScale(initial=64.0, growth_interval=3)
    assert float(ops.convert_to_numpy(ours.dynamic_scale)) == 128.0
    assert int(ops.convert_to_numpy(ours.step_counter)) == 1
    revert(model)
    assert model.optimizer is keras_own
    keras_own.dynamic_scale.assign(0.0)  # where 142 skipped steps take it
    attach_loss_scale(model, "dynamic")
    assert float(ops.convert_to_numpy(model.optimizer.dynamic_scale)) == 1.0


def test_a_model_without_an_optimizer_is_refused():
    model = model_with("sgd", trained=False)
    model.optimizer = None
    with pytest.raises(ValueError, match=re.escape("was compiled without an optimizer")):
        attach_loss_scale(model, "dynamic")


# --- optimizers besides the model's own ---


class Holder(keras.Model):
    """Keeps optimizers in an attribute, a list, a dict, a layer and a tuple; one of them twice."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.d_optimizer = keras.optimizers.SGD(0.1)
        self.all = [keras.optimizers.SGD(0.2), self.d_optimizer]
        self.named = {"actor": keras.optimizers.SGD(0.3)}
        self.dense.teacher = keras.optimizers.SGD(0.5)
        self.pair = (keras.optimizers.SGD(0.6),)

    def call(self, x):
        return self.dense(x)

    def everywhere(self):
        others = *self.all, self.named["actor"], self.dense.teacher, *self.pair
        return [self.optimizer, self.d_optimizer, *others]


def test_every_optimizer_that_a_model_holds_is_wrapped_once_and_given_back():
    model = Holder()
    model(np.ones((1, 2)))
    model.compile(keras.optimizers.SGD(0.4), "mse")
    before = model.everywhere()
    attach_loss_scale(model, 64.0)
    wrapped = model.everywhere()
    assert all(isinstance(one, LossScaleOptimizer) for one in wrapped)
    assert [one.inner_optimizer for one in wrapped] == before
    assert wrapped[3] is wrapped[1]
    attach_loss_scale(model, 32.0)
    assert [one.inner_optimizer for one in model.everywhere()] == before
    assert {one.loss_scale.scale for one in model.everywhere()} == {32.0}
    assert model.everywhere()[3] is model.everywhere()[1]
    revert(model)
    assert model.everywhere() == before


@only_on("tensorflow", "jax", reason="PyTorch refuses a step by hand on its parameters")
def test_the_gradients_of_another_optimizers_loss_are_refused():
    variable = keras.Variable([1.0])
    first, second = (LossScaleOptimizer(keras.optimizers.SGD(0.1), 8.0) for _ in range(2))
    first.stands_beside([first, second], "self.first")
    second.stands_beside([first, second], "self.second")
    scaled = first.scale_loss(1.0)
    gradient = [keras.ops.reshape(scaled, (1,))]
    with pytest.raises(ValueError, match=r"self\.second received .* that self\.first scaled"):
        second.apply(gradient, [variable])
    first.apply(gradient, [variable])  # its own
    assert float(variable.value[0]) == pytest.approx(0.9)


def test_both_losses_may_be_scaled_before_either_gradient_is_applied():
    variable = keras.Variable([1.0])
    pair = [LossScaleOptimizer(keras.optimizers.SGD(0.1), 8.0) for _ in range(2)]
    for optimizer in pair:
        optimizer.stands_beside(pair)
    gradients = [[keras.ops.reshape(one.scale_loss(1.0), (1,))] for one in pair]
    for optimizer, gradient in zip(pair, gradients, strict=True):
        optimizer.apply(gradient, [variable])
    assert variable.numpy()[0] == pytest.approx(0.8)


@pytest.mark.parametrize("attached_before", [False, True])
def test_variables_that_came_after_the_optimizer_was_built_are_told_before_the_first_step(
    attached_before,
):
    model = model_with("adam", trained=False)
    model.layers[0].trainable = False
    model.optimizer.build(model.trainable_variables)
    if attached_before:
        attach_loss_scale(model, "dynamic")
    model.layers[0].trainable = True
    expected = (
        "does not know 2 of the 4 given, such as 'sequential.*/kernel'. After adding layers, "
        "unfreezing them or enabling LoRA, compile the model with a new optimizer; tfmp.revert("
    )
    with pytest.raises(ValueError, match=re.escape(expected).replace(r"\.\*", ".*")):
        attach_loss_scale(model, "dynamic")
    model.layers[0].trainable = False  # again: no obstacle
    attach_loss_scale(model, "dynamic")

"""Loops of PyTorch over Keras models: parameters stay themselves, and bad steps are skipped."""

import runpy

import keras
import numpy as np
import pytest
import torch
from repository import ROOT
from stacks import stack

import tfmp
from tfmp.loss_scaling.telemetry import read_counters


@pytest.fixture
def model() -> keras.Model:
    keras.utils.set_random_seed(0)
    return stack(8, 1)


def test_the_sample_trains(capsys):
    keras.backend.clear_session()  # numbers layers from the first on
    runpy.run_path(str(ROOT / "samples" / "torch_loop.py"), run_name="__main__")
    shown = capsys.readouterr().out
    losses = [float(line.rpartition(" ")[2]) for line in shown.splitlines() if "epoch" in line]
    assert losses[-1] < 0.1 < losses[0]
    assert "dense: float16, dense_1: float32" in shown
    assert "loss scale 32768, 0 steps skipped" in shown


def test_the_sample_times_its_step_beside_amp(capsys):
    runpy.run_path(str(ROOT / "samples" / "torch_profile.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert "mixed_float16" in shown
    assert float(shown.rpartition("GradScaler: ")[2].removesuffix(" ms\n")) > 0


@pytest.mark.parametrize(
    ("policy", "stored"), [("mixed_float16", torch.float32), ("float64", torch.float64)]
)
def test_optimizers_of_pytorch_hold_the_parameters_before_and_after_a_plan(model, policy, stored):
    parameters = list(model.parameters())
    sgd = torch.optim.SGD(parameters, 0.1)
    x = torch.ones(2, 4)

    def moves() -> bool:
        before = [weight.copy() for weight in model.get_weights()]
        model.zero_grad()
        model(x, training=True).mean().backward()
        sgd.step()
        return all((one != two).any() for one, two in zip(before, model.get_weights(), strict=True))

    for change, dtype in (
        (lambda: tfmp.plan(model, policy).apply(), stored),
        (lambda: tfmp.revert(model), torch.float32),
    ):
        change()
        now = list(model.parameters())
        assert all(one is two for one, two in zip(parameters, now, strict=True))
        assert {parameter.dtype for parameter in now} == {dtype}
        assert moves()


def test_a_step_with_a_gradient_that_is_not_finite_changes_the_scale_alone(model):
    tfmp.plan(model, "mixed_float16").apply()
    optimizer = tfmp.LossScaleOptimizer(keras.optimizers.Adam(0.1))
    optimizer.build(model.trainable_variables)

    def step(x: torch.Tensor) -> list[np.ndarray]:
        model.zero_grad()
        optimizer.scale_loss(model(x, training=True).mean()).backward()
        gradients = [variable.value.grad for variable in model.trainable_variables]
        with torch.no_grad():
            optimizer.apply(gradients, model.trainable_variables)
        inner = [variable.numpy() for variable in optimizer.inner_optimizer.variables]
        return [*(array.copy() for array in inner), *model.get_weights()]

    good = step(torch.ones(2, 4))
    bad = step(torch.full((2, 4), 1e6))  # past the largest number of FP16
    for one, two in zip(good, bad, strict=True):
        np.testing.assert_array_equal(one, two)
    counters = read_counters(optimizer)
    assert (counters.loss_scale, counters.skipped_steps) == (2.0**14, 1)
    assert any((one != two).any() for one, two in zip(bad, step(torch.ones(2, 4)), strict=True))


class Forgetful(keras.Sequential):
    def train_step(self, data):
        x, y = data
        self.zero_grad()
        loss = self.compute_loss(x, y, self(x, training=True))
        loss.backward()
        weights = self.trainable_weights
        with torch.no_grad():
            self.optimizer.apply([weight.value.grad for weight in weights], weights)
        return {"loss": loss}


def test_no_step_of_a_loss_that_is_not_scaled_is_shrunk_by_a_scale():
    net = Forgetful([keras.layers.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(1)])
    net.compile(keras.optimizers.SGD(0.1), "mse")
    x, before = np.ones((8, 4), "float32"), net.get_weights()[0]
    callback = tfmp.MixedPrecision("mixed_float16")
    net.fit(x, x[:, :1] * 9, batch_size=8, verbose=0, callbacks=[callback])
    assert np.abs(net.get_weights()[0] - before).max() > 1e-2
    (finding,) = callback.report.findings
    assert finding.check == "train_step without loss scaling"
    assert callback.report.loss_scales[-1].loss_scale == 1.0

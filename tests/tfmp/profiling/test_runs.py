"""TrainingRun: its float64 is that of a job of `colocate`; data without labels will do."""

import keras
import numpy as np
from stacks import stack

from tfmp.colocation.job import Job
from tfmp.colocation.training import Training
from tfmp.profiling.copies import copy_of
from tfmp.profiling.runs import TrainingRun, Variant
from tfmp.shared.batches import TrainingBatch

X, Y = np.random.default_rng(0).standard_normal((16, 6)), np.arange(16) % 3


def build() -> keras.Model:
    keras.utils.set_random_seed(0)
    loss = keras.losses.SparseCategoricalCrossentropy(True)
    how = {"optimizer": keras.optimizers.Adam(0.01), "loss": loss, "metrics": ["accuracy"]}
    return stack(3, inputs=(6,), **how)


def dtypes(model: keras.Model, batch: tuple) -> dict[str, set[str]]:
    groups = {
        "weights": model.trainable_variables,
        "optimizer": model.optimizer.variables,
        "metrics": model.metrics_variables,
        "data": batch[:1],
    }
    found = {
        name: {keras.backend.standardize_dtype(value.dtype) for value in group}
        for name, group in groups.items()
    }
    return {**found, "loss": {model._compile_loss.dtype}}


def test_float64_is_float64_all_over_as_in_colocate():
    batch = TrainingBatch(X, Y)
    run = TrainingRun(copy_of(build, batch, "float64"), Variant("float64"), [batch])
    run.run(3)
    run.give_back()
    job = Training(Job(build, (X, Y), "float64", steps=3, batch_size=16, shuffle=False))
    job.set_up()
    job.step()
    job.step()
    job.end()
    for found in (dtypes(run.model, run.batch()), dtypes(job.model, job.begin_step())):
        assert found.pop("optimizer") - {"int32", "int64"} == {"float64"}
        assert all(each == {"float64"} for each in found.values()), found
    for one, two in zip(run.model.get_weights(), job.model.get_weights(), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-13)
    assert (keras.config.floatx(), keras.config.dtype_policy().name) == ("float32", "float32")


def own_loss() -> keras.Model:
    model = stack(3, inputs=(6,), optimizer="sgd")
    model.compute_loss = lambda x, y, y_pred, *_, **__: keras.ops.mean(y_pred**2)
    return model


def test_the_work_and_the_memory_of_a_step_without_labels(monkeypatch):
    def measure(*_):
        raise AssertionError("few steps measure gradients")

    monkeypatch.setattr("tfmp.loss_scaling.gauges.measure", measure)
    batch = TrainingBatch(X)
    run = TrainingRun(copy_of(own_loss, batch, "float32"), Variant("mixed_float16"), [batch])
    assert run.work().flops > 2 * 2 * 16 * 6 * 3
    monkeypatch.undo()
    run.warm_up()
    assert run.memory().bytes > 4 * (6 * 3 + 3)

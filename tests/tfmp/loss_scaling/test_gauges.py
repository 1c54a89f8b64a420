"""Gauges of gradients: measured on the device, read as underflow and headroom."""

import keras
import numpy as np
import pytest
from keras import ops

from tfmp.loss_scaling import LossScaleOptimizer, gauges, read_counters
from tfmp.loss_scaling.gradient_health import health_of
from tfmp.loss_scaling.gradients import sums_of

TINY = 2.0**-24  # FP16's smallest number


def measured(*grads, scale=1.0):
    """The gauges after a step, from NumPy arrays."""
    vector = ops.zeros(gauges.packed_size(len(grads)))
    tensors = [None if g is None else ops.convert_to_tensor(g, dtype="float32") for g in grads]
    scale = ops.convert_to_tensor(scale)
    sums = sums_of(tensors, scale)
    return ops.convert_to_numpy(gauges.measure(vector, scale, ops.convert_to_tensor(0), sums))


def health(*grads, **options):
    paths = [f"v{place}" for place in range(len(grads))]
    return health_of(gauges.unpack(measured(*grads, **options)), paths)


def in_float16(values) -> np.ndarray:
    return np.asarray(values).astype("float16").astype("float32")


# --- the numbers ---


def test_norm_and_headroom_are_of_unscaled_and_scaled_gradients():
    found = health([3.0 * 1024, 0.0], [[-4.0 * 1024]], scale=1024.0)
    assert found.norm == pytest.approx(5.0)
    assert found.headroom_bits == pytest.approx(np.log2(65504 / 4096), abs=1e-6)
    assert [row.zeros for row in found.variables] == [0.5, 0.0]


def test_gradients_of_other_shapes_keep_their_places():
    large = np.full(2**16 + 1, 5e-30)
    grads = [[3.0, 0.0], None, 1.0, [0.0, 0.0], large, [2.0**-23, -4.0, 0.0], large / 5]
    grads += [np.ones((2, 3)), np.full((3, 1), 2.0)]
    found = gauges.unpack(measured(*grads))
    size = large.size
    assert found.values.tolist() == [2, 0, 1, 2, size, 3, size, 6, 3]
    assert found.nonzero.tolist() == [1, 0, 1, 0, size, 2, size, 6, 3]
    assert found.lowest.tolist() == [0, 0, 0, 0, size, 1, size, 0, 0]
    np.testing.assert_allclose(found.largest, [3, 0, 1, 0, 5e-30, 4, 1e-30, 1, 2], rtol=1e-6)
    assert found.ring[0] == pytest.approx(np.sqrt(9 + 1 + 16 + 6 + 12))


# --- underflow, estimated from the values that are left ---


@pytest.mark.parametrize("center", [-30, -24])
def test_the_estimate_is_near_the_truth(center):
    exact = np.random.default_rng(1).lognormal(np.log(2.0**center), 2.0, 20_000)
    lost = np.mean(in_float16(exact) == 0)
    assert health(in_float16(exact)).underflow == pytest.approx(lost, abs=0.12)


@pytest.mark.parametrize(
    "values",
    [
        np.where(np.arange(1000) % 3, 0.0, 1e-2),  # dead units
        np.zeros(100),  # a branch behind a factor of 0
        in_float16(np.random.default_rng(0).normal(0, 1e-2, 10_000)),
    ],
    ids=["dead units", "factor 0", "normal"],
)
def test_zeros_that_float32_has_too_are_no_underflow(values):
    assert health(values, [1.0]).underflow < 0.001


def test_a_gradient_that_is_gone_behind_a_tiny_one_is_lost():
    found = health(np.zeros(30), in_float16(np.full(10, 3 * TINY)))
    assert [row.underflow for row in found.variables] == [1.0, 0.0]
    assert found.underflow == 0.75


# --- in the optimizer ---


def optimizer_after(steps: int, gradient, interval_scale=8.0):
    weight = keras.Variable(np.full(4, 2.0, "float32"), name="w")
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.01), interval_scale)
    optimizer.build([weight])
    for _ in range(steps):
        optimizer.scale_loss(1.0)
        optimizer.apply([ops.convert_to_tensor(gradient, dtype="float32")], [weight])
    return optimizer


def test_the_optimizer_measures_its_first_steps():
    found = read_counters(optimizer_after(3, [8.0, 0.0, 0.0, 0.0])).gradients
    assert (found.step, found.loss_scale) == (1, 8.0)
    assert found.norm == pytest.approx(1.0)


def test_skipped_steps_are_not_measured():
    assert read_counters(optimizer_after(2, [np.nan] * 4)).gradients is None


@pytest.mark.parametrize(
    ("steps", "first", "expected"),
    [
        (40, 0, [0, 1, 32, 33]),
        (40, 7, [7, 8, 39, 40]),
        (1_000_000, 0, [0, 1, 512, 513]),
        (None, 0, [0, 1, 512, 513]),
    ],
)
def test_steps_that_are_measured(steps, first, expected):
    every = gauges.interval_for(steps)
    due = gauges.is_due(ops.arange(514 if every > 32 else 41), every, first)
    found = np.flatnonzero(ops.convert_to_numpy(due))
    assert [step for step in found if step >= first] == expected


def test_sparse_gradients_are_measured_by_their_rows():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("only TensorFlow has sparse gradients")
    import tensorflow as tf

    table = keras.Variable(np.ones((50, 2), "float32"))
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.1), 1.0)
    optimizer.build([table])
    rows = tf.IndexedSlices(tf.constant([[3.0, 4.0]]), tf.constant([7]), tf.constant([50, 2]))
    optimizer.apply([rows], [table])
    (row,) = read_counters(optimizer).gradients.variables
    assert (row.values, row.zeros) == (2, 0.0)
    assert read_counters(optimizer).gradients.norm == pytest.approx(5.0)

"""Code that clips gradients of a scaled loss, and code that clips something else."""

import textwrap

import pytest

from tfmp.nonfinite.clipped_gradients import clipped_values

STEP = """
def train_step(self, data):
    x, y = data
    with tf.GradientTape() as tape:
        loss = self.compute_loss(x, y, self(x, training=True))
        scaled = self.optimizer.scale_loss(loss)
    weights = self.trainable_weights
    gradients = tape.gradient(scaled, weights)
    {}
    self.optimizer.apply(gradients, weights)
"""

JAX_STEP = """
def train_step(self, state, data):
    backward = jax.value_and_grad(self.scaled_loss, has_aux=True)
    (loss, rest), gradients = backward(state, *data)
    {}
    return gradients
"""


def clips(step: str, line: str) -> str | None:
    return clipped_values(step.format(textwrap.indent(line, "    ").strip()), "scale_loss")


@pytest.mark.parametrize(
    "line",
    [
        "gradients = [tf.clip_by_value(g, -1.0, 1.0) for g in gradients]",
        "gradients = keras.tree.map_structure(lambda g: ops.clip(g, -1, 1), gradients)",
        "pairs = [(clip(g, -1, 1), v) for g, v in zip(gradients, weights)]",
        "for g in gradients:\n    clipped.append(g.dtype and jnp.clip(g, -1, 1))",
    ],
)
def test_values_of_scaled_gradients(line):
    for step in (STEP, JAX_STEP):
        assert clips(step, line) in ("clip_by_value", "clip")


def test_a_gradient_that_is_taken_within_the_call():
    line = "g = tf.clip_by_value(tape.gradient(self.optimizer.scale_loss(loss), w)[0], -1, 1)"
    assert clips(STEP, line) == "clip_by_value"


@pytest.mark.parametrize(
    "line",
    [
        "loss = tf.clip_by_value(loss, 0.0, 100.0)",
        "for g, v in zip(gradients, weights):\n    v.assign(tf.clip_by_value(v, -0.01, 0.01))",
        "slope = tape.gradient(loss, x)\nslope = tf.clip_by_value(slope, -1, 1)",
        "norm = ops.clip(ops.sqrt(sum(ops.sum(g**2) for g in gradients)), 0, 10)",
        "a, b = tf.clip_by_value(x, 0, 1), gradients",
    ],
)
def test_other_values(line):
    for step in (STEP, JAX_STEP):
        assert clips(step, line) is None


def test_code_that_python_cannot_read():
    assert clipped_values("def step(:", "scale_loss") is None

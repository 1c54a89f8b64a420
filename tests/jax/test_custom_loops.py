"""The five steps by hand on JAX: forward, scale, backward, unscale, update."""

import jax
import keras
import numpy as np
import pytest

from tfmp.loss_scaling.optimizer import LossScaleOptimizer


@pytest.mark.parametrize("bad", [False, True])
def test_a_jitted_loop_unscales_clips_and_applies(bad):
    target = keras.Variable([3.0, -4.0])
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.5))
    optimizer.build([target])

    @jax.jit
    def step(weights, own):
        mapping = list(zip(optimizer.variables, own, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            scaled = [weights[0] * optimizer.scale_loss(float("inf") if bad else 1.0)]
            unscaled = optimizer.unscale(scaled)
        norm = keras.ops.norm(unscaled[0])
        clipped = keras.ops.clip(unscaled[0], -1.0, 1.0)
        return optimizer.stateless_apply(own, [clipped], weights), norm

    own = [variable.value for variable in optimizer.variables]
    ((weights, own), norm) = step([target.value], own)
    np.testing.assert_allclose(weights[0], [3.0, -4.0] if bad else [2.5, -3.5])
    assert bad or float(norm) == 5.0
    scales = [value for old, value in zip(optimizer.variables, own, strict=True)
              if old is optimizer.dynamic_scale]  # fmt: skip
    assert scales == [2.0**14 if bad else 2.0**15]

"""Language models written by hand train with the callback as they do in float32."""

import keras
import numpy as np
import pytest
from quick import quick
from transformer_families import FAMILIES, tokens

import tfmp

# JAX adds float32 to 16 bits: the ways to write a block differ less there.
NAMES = [name for name in FAMILIES if "masks" in name or keras.backend.backend() != "jax"]


def losses(family: str, *callbacks: keras.callbacks.Callback) -> list[float]:
    keras.utils.set_random_seed(0)
    model = FAMILIES[family]()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, jit_compile=False)
    fitted = model.fit(
        *tokens(), batch_size=32, epochs=5, verbose=0, shuffle=False, callbacks=list(callbacks)
    )
    return fitted.history["loss"]


@pytest.mark.parametrize(
    "family", quick(NAMES, "pre-norm, masks chosen", "subclassed post-norm, masks added")
)
def test_it_trains_as_in_float32(family):
    callback = tfmp.MixedPrecision("mixed_float16")
    mixed, wide = losses(family, callback), losses(family)
    assert wide[-1] < 0.95 * wide[0]
    np.testing.assert_allclose(mixed, wide, rtol=0.1)
    assert callback.report.skipped_steps == 0
    assert "float16" in {row.compute_dtype for row in callback.plan.rows}

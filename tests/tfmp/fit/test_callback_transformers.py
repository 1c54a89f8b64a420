"""Language models written by hand train with the callback as they do in float32."""

import keras
import numpy as np
import pytest
from probed_fits import EAGER
from quick import quick
from transformer_families import FAMILIES, tokens

import tfmp


def losses(family: str, *callbacks: keras.callbacks.Callback) -> list[float]:
    keras.utils.set_random_seed(0)
    model = FAMILIES[family]()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.03), loss, **EAGER)
    fitted = model.fit(
        *tokens(), batch_size=96, epochs=3, verbose=0, shuffle=False, callbacks=list(callbacks)
    )
    return fitted.history["loss"]


# NumPy's warning for a mask's constant of -1e9, which becomes -inf in FP16 and masks as well.
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("family", quick(FAMILIES, "subclassed post-norm, masks added"))
def test_it_trains_as_in_float32(family):
    callback = tfmp.MixedPrecision("mixed_float16")
    mixed, wide = losses(family, callback), losses(family)
    assert wide[-1] < 0.95 * wide[0]
    np.testing.assert_allclose(mixed, wide, rtol=0.1)
    assert callback.report.skipped_steps == 0
    assert "float16" in {row.compute_dtype for row in callback.plan.rows}

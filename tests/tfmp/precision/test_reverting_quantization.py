"""Quantization and LoRA after a plan: each works, or the error names the next step."""

import keras
import numpy as np
import pytest
from stacks import stack

from tfmp.precision.policy import plan
from tfmp.precision.reverting import revert


def model() -> keras.Model:
    keras.utils.set_random_seed(0)
    dense = keras.layers.Dense
    return stack(dense(8, name="first"), dense(8, name="second"), dense(2, name="out"))


def policies(net: keras.Model) -> list[str]:
    return [layer.dtype_policy.name for layer in net.layers]


X = np.random.default_rng(0).standard_normal((8, 4)).astype("float32")


@pytest.mark.filterwarnings("ignore:Layer InputLayer does not have a `quantize` method")
def test_a_bfloat16_model_is_quantized_planned_again_and_reverted():
    net = model()
    wanted = np.asarray(net(X))
    plan(net, "mixed_bfloat16").apply()
    net.quantize("int8")
    kernel = np.asarray(net.get_layer("first")._kernel)
    assert policies(net) == ["int8_from_mixed_bfloat16"] * 2 + ["int8_from_float32"]
    again = plan(net, "mixed_float16")
    assert again.rows[1].reason == "quantized to int8"
    again.apply()
    assert policies(net) == ["int8_from_mixed_bfloat16"] * 2 + ["int8_from_float32"]
    revert(net)
    assert policies(net) == ["int8_from_float32"] * 3
    np.testing.assert_array_equal(net.get_layer("first")._kernel, kernel)
    np.testing.assert_allclose(net(X), wanted, atol=0.1)


def test_lora_trains_beside_a_mixed_kernel():
    net = model()
    plan(net, "mixed_float16").apply()
    net.get_layer("second").enable_lora(2)
    names = [variable.name for variable in net.get_layer("second").trainable_variables]
    assert names == ["bias", "lora_kernel_a", "lora_kernel_b"]
    assert {variable.dtype for variable in net.trainable_variables} == {"float32"}
    assert net.get_layer("second")(X.repeat(2, axis=1)).dtype == "float16"

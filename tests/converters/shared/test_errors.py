"""Errors of frameworks, in words of ours that end with a step that helps."""

import pytest
import tensorflow as tf

from tfmp.converters.shared import errors
from tfmp.converters.shared.errors import ConversionError, InputError, Refusal, running_on_samples

NHWC = "The Conv2D op currently only supports the NHWC tensor format on the CPU."
INDEX = "indices[0,2] = 99 is not in [0, 10)"
SWITCH = "Set TF_ENABLE_ONEDNN_OPTS=1 before TensorFlow starts: with oneDNN it has more kernels."
VALUES = "Check their sizes and values: ids, for example, have to lie within the vocabulary."


@pytest.mark.parametrize(
    ("text", "onednn", "step"),
    [(NHWC, False, SWITCH), (NHWC, True, VALUES), (INDEX, False, VALUES), (INDEX, True, VALUES)],
)
def test_a_kernel_that_onednn_has_is_told(monkeypatch, text: str, onednn: bool, step: str) -> None:
    monkeypatch.setattr(errors, "tensorflow_uses_onednn", lambda: onednn)
    with pytest.raises(InputError) as caught, running_on_samples("m"):
        raise tf.errors.UnimplementedError(None, None, text)
    assert str(caught.value) == f"model 'm' cannot run on these samples: {text.rstrip('.')}. {step}"


def test_a_refusal_has_its_parts_and_one_text():
    refusal = Refusal("is empty", "config.json", "nothing was written", "Save it again").at(
        "m.keras"
    )
    error = ConversionError(refusal)
    assert str(error) == "m.keras: config.json: is empty. nothing was written. Save it again."
    assert error.refusal.remedy == "Save it again"
    assert InputError("m: is empty", "Save it again").refusal == Refusal(
        "m: is empty", remedy="Save it again"
    )
    assert InputError("all of it").refusal == Refusal("all of it")

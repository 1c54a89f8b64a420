"""The Keras backend: which ones are accepted, and when they compute in float64."""

import contextlib
import logging

import keras
import pytest

from tfmp.shared import backend


def test_other_backends_are_refused_by_name(monkeypatch):
    backend.current_backend()
    monkeypatch.setattr(keras.backend, "backend", lambda: "openvino")
    known = r"tensorflow, jax or torch, received 'openvino'\. Set the"
    with pytest.raises(ValueError, match=known):
        backend.current_backend()


@pytest.mark.parametrize("has_64_bits", [True, False])
def test_float64_wants_64_bit_types(monkeypatch, has_64_bits):
    monkeypatch.setattr(type(backend.current_backend()), "has_64_bits", lambda own: has_64_bits)
    refused = pytest.raises(ValueError, match=r"^policy 'float64' expects JAX's 64-bit types")
    with contextlib.nullcontext() if has_64_bits else refused:
        backend.check_64_bits("policy 'float64'")


def test_advice_about_retracing_is_kept_back_and_nothing_else(caplog):
    logger = logging.getLogger("tensorflow")
    advice = "5 out of the last 5 calls triggered tf.function retracing"
    with caplog.at_level(logging.WARNING, "tensorflow"):
        with backend.without_retracing_advice():
            logger.warning(advice)
            logger.warning("another matter")
        logger.warning(advice)
    assert [record.message for record in caplog.records] == ["another matter", advice]

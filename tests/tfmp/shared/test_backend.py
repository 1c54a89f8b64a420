"""The Keras backend: which ones are accepted, and when they compute in float64."""

import logging

import keras
import pytest

from tfmp.shared import backend


def test_the_backends_that_the_package_knows_are_accepted(monkeypatch):
    for name in backend.BACKENDS:
        monkeypatch.setattr(keras.backend, "backend", lambda name=name: name)
        backend.check_backend()
    monkeypatch.setattr(keras.backend, "backend", lambda: "torch")
    with pytest.raises(ValueError, match=r"tensorflow or jax, received 'torch'\. Set the"):
        backend.check_backend()


def test_float64_wants_64_bit_types_on_jax_only(monkeypatch):
    jax = pytest.importorskip("jax")
    monkeypatch.setattr(keras.backend, "backend", lambda: "tensorflow")
    backend.check_64_bits("policy 'float64'")
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    before = jax.config.jax_enable_x64
    try:
        jax.config.update("jax_enable_x64", True)
        backend.check_64_bits("policy 'float64'")
        jax.config.update("jax_enable_x64", False)
        with pytest.raises(ValueError, match=r"^policy 'float64' expects JAX's 64-bit types"):
            backend.check_64_bits("policy 'float64'")
    finally:
        jax.config.update("jax_enable_x64", before)


def test_advice_about_retracing_is_kept_back_and_nothing_else(caplog):
    logger = logging.getLogger("tensorflow")
    advice = "5 out of the last 5 calls triggered tf.function retracing"
    with caplog.at_level(logging.WARNING, "tensorflow"):
        with backend.without_retracing_advice():
            logger.warning(advice)
            logger.warning("another matter")
        logger.warning(advice)
    assert [record.message for record in caplog.records] == ["another matter", advice]

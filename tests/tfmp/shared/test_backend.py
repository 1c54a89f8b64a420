"""The Keras backend: which ones are accepted, and when they compute in float64."""

import contextlib
import logging
import sys
import types

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


@pytest.mark.parametrize(
    ("name", "x64", "accepted"),
    [("tensorflow", False, True), ("jax", True, True), ("jax", False, False)],
)
def test_float64_wants_64_bit_types_on_jax_only(monkeypatch, name, x64, accepted):
    config = types.SimpleNamespace(jax_enable_x64=x64)
    monkeypatch.setitem(sys.modules, "jax", types.SimpleNamespace(config=config))
    monkeypatch.setattr(keras.backend, "backend", lambda: name)
    refused = pytest.raises(ValueError, match=r"^policy 'float64' expects JAX's 64-bit types")
    with contextlib.nullcontext() if accepted else refused:
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

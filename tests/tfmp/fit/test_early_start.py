"""A start before the callbacks', and nothing left of it where `fit` does not begin."""

import keras
import numpy as np
import pytest
from stacks import stack

import tfmp
from tfmp.fit.early_start import before_callbacks_begin

X = np.zeros((8, 2), np.float32)


@pytest.fixture
def net() -> keras.Model:
    return stack(1, inputs=(2,), optimizer="sgd", loss="mse")


def test_it_begins_once_and_before_every_callback(net):
    order = []

    class Asking(keras.callbacks.Callback):
        def set_model(self, model):
            before_callbacks_begin(model, lambda: order.append("early"))

    noting = keras.callbacks.LambdaCallback(on_train_begin=lambda logs: order.append("callback"))
    net.fit(X, X[:, :1], verbose=0, callbacks=[noting, Asking()])
    net.fit(X, X[:, :1], verbose=0, callbacks=[noting])
    assert order == ["early", "callback", "callback"]


@pytest.mark.parametrize("method", ["evaluate", "predict"])
def test_without_fit_nothing_begins(net, method):
    arguments = (X, X[:, :1]) if method == "evaluate" else (X,)
    mixed = tfmp.MixedPrecision("mixed_float16")
    getattr(net, method)(*arguments, verbose=0, callbacks=[mixed])
    net.fit(X, X[:, :1], verbose=0)  # another one, which did not ask for mixed precision
    assert mixed.plan is None
    assert not isinstance(net.optimizer, tfmp.LossScaleOptimizer)

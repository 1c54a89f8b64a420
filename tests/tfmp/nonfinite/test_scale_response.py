"""Models whose own code may have gradients that a loss scale misleads."""

import keras
from keras import layers, ops

from tfmp.nonfinite import has_own_gradients


def kept(x):
    # A mention of custom_gradient in this module is what the search is for.
    return ops.identity(x)


def test_a_module_that_mentions_gradients_of_its_own_is_looked_into():
    own = keras.Sequential([layers.Input((2,)), layers.Lambda(kept), layers.Dense(1)])
    assert has_own_gradients(own)
    assert not has_own_gradients(keras.Sequential([layers.Input((2,)), layers.Dense(1)]))

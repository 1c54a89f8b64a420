"""Probes suit the model: ids for ids, and pictures that do not vanish."""

import keras
import numpy as np

from tfmp.converters.intake import open_source, probe

layers = keras.layers


def shrinking() -> keras.Model:
    """From 8 pixels nothing is left, and the mean of nothing becomes a number again."""
    image = keras.Input((None, None, 3), name="image")
    hidden = image
    for _ in range(3):
        hidden = layers.Conv2D(2, 3, strides=2)(hidden)
    hidden = layers.ReLU(6.0)(layers.GlobalAveragePooling2D()(hidden))
    return keras.Model(image, layers.Dense(2)(hidden))


def test_pictures_grow_until_something_is_left_of_them():
    batch = probe(open_source(shrinking()), samples=2, seed=0)
    assert batch["image"].shape == (2, 16, 16, 3)


def test_the_smallest_size_where_it_does():
    image = keras.Input((None, None, 3), name="image")
    source = open_source(keras.Model(image, layers.Conv2D(2, 3)(image)))
    assert probe(source, samples=1, seed=0)["image"].shape == (1, 8, 8, 3)
    steps = keras.Input((None, 2), name="steps")
    source = open_source(keras.Model(steps, layers.Reshape((3, 7))(steps)))
    assert probe(source, samples=1, seed=0)["steps"].shape == (1, 8, 2)


def test_floats_that_are_ids_are_ids_and_others_are_not():
    model = keras.Sequential([keras.Input((5,), name="ids"), layers.Embedding(9, 4)])
    values = probe(open_source(model), samples=4, seed=0)["ids"]
    assert values.dtype == np.float32
    assert set(values.ravel()) == {0.0, 1.0}
    model = keras.Sequential([keras.Input((5,), name="x"), layers.Dense(2)])
    values = probe(open_source(model), samples=4, seed=0)["x"]
    assert len(set(values.ravel())) == values.size

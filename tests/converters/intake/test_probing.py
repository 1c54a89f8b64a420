"""Probes suit the model: ids for ids, known by what is done with them, and pictures that stay."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfmp.converters.intake import Source, open_source, probe
from tfmp.converters.onnx.export.export import check_export, export_onnx

layers = keras.layers


def shrinking() -> keras.Model:
    """From 8 pixels nothing is left, and the mean of nothing becomes a number again."""
    image = keras.Input((None, None, 3), name="image")
    hidden = image
    for _ in range(3):
        hidden = layers.Conv2D(2, 3, strides=2)(hidden)
    hidden = layers.ReLU(6.0)(layers.GlobalAveragePooling2D()(hidden))
    return keras.Model(image, layers.Dense(2)(hidden))


def test_pictures_grow_until_something_is_left_of_them(monkeypatch: pytest.MonkeyPatch):
    """No kernel meets others: some of TensorFlow's divide by such sizes, which ends the process."""
    forward, met = Source.forward, []
    monkeypatch.setattr(Source, "forward", lambda *call: met.append(call[1]) or forward(*call))
    batch = probe(open_source(shrinking()), samples=2, seed=0)
    assert batch["image"].shape == (2, 16, 16, 3)
    assert met == [batch]


def test_the_smallest_size_where_it_does():
    image = keras.Input((None, None, 3), name="image")
    source = open_source(keras.Model(image, layers.Conv2D(2, 3)(image)))
    assert probe(source, samples=1, seed=0)["image"].shape == (1, 8, 8, 3)
    steps = keras.Input((None, 2), name="steps")
    source = open_source(keras.Model(steps, layers.Reshape((3, 7))(steps)))
    assert probe(source, samples=1, seed=0)["steps"].shape == (1, 8, 2)


def test_a_size_that_only_the_weights_tell():
    """As where `Normalization().adapt(x)` stands before a model that is built by its first call."""
    x = keras.Input((None,), name="x")
    source = open_source(keras.Model(x, keras.ops.relu(x - np.ones((1, 65), np.float32))))
    assert probe(source, samples=2, seed=0)["x"].shape == (2, 65)


def test_the_first_axis_of_a_function_may_be_one_of_time():
    @tf.function(input_signature=[tf.TensorSpec((None,), name="wave")])
    def spectra(wave):
        return tf.abs(tf.signal.stft(wave, 40, 20))

    assert probe(open_source(spectra), samples=2, seed=0)["wave"].shape == (64,)


def test_floats_that_are_ids_are_ids_and_others_are_not():
    model = keras.Sequential([keras.Input((5,), name="ids"), layers.Embedding(9, 4)])
    values = probe(open_source(model), samples=4, seed=0)["ids"]
    assert values.dtype == np.float32
    assert set(values.ravel()) == {0.0, 1.0}
    model = keras.Sequential([keras.Input((5,), name="x"), layers.Dense(2)])
    values = probe(open_source(model), samples=4, seed=0)["x"]
    assert len(set(values.ravel())) == values.size


class Reader(keras.Model):
    """Embeds its input, and may do more with it."""

    def __init__(self, more=None, **options):
        super().__init__()
        self.table = keras.layers.Embedding(5000, 3, **options)
        self.more = more

    def call(self, ids):
        rows = self.table(ids)
        return rows if self.more is None else rows + self.more(ids)


def opened(model, dtype="int32"):
    model(np.ones((1, 4), dtype))
    return open_source(model)


@pytest.mark.parametrize("options", [{}, {"mask_zero": True}])
def test_ids_are_integers(options):
    source = opened(Reader(**options))
    assert [spec.dtype for spec in source.inputs] == ["int32"]
    (note,) = source.origin.notes
    assert note.endswith("because the model casts them at once: 'input' (int32)")
    assert check_export(export_onnx(source), source) == 0
    large = {"input": np.array([[4999, 4097, 2049, 0]], np.int32)}
    expected = source.forward(large)["output_0"]
    np.testing.assert_array_equal(expected[0, 0], source.variables[0].numpy()[4999])


@pytest.mark.parametrize(
    "more",
    [lambda x: keras.ops.expand_dims(x * 0.5, -1), lambda x: keras.ops.cast(x, "int64")[..., None]],
    ids=["float arithmetic", "two integer types"],
)
def test_what_may_be_a_float_stays_one(more):
    source = opened(Reader(lambda x: keras.ops.cast(more(x), "float32")), "float32")
    assert [spec.dtype for spec in source.inputs] == ["float32"]
    assert source.origin.notes == ()


def test_declared_and_required_floats_are_kept():
    class Insisting(keras.Model):
        def call(self, x):
            assert x.dtype == "float32"
            return keras.ops.cast(x, "int32")

    source = opened(Insisting(), "float32")
    assert [spec.dtype for spec in source.inputs] == ["float32"]
    x = keras.Input((4,), name="x")
    source = open_source(keras.Model(x, keras.ops.cast(x, "int32")))
    assert [spec.dtype for spec in source.inputs] == ["float32"]

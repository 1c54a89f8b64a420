"""Subclassed models keep no dtypes: ids are known by what is done with them."""

import keras
import numpy as np
import pytest

from tfmp.converters.intake import open_source
from tfmp.converters.onnx.export.export import check_export, export_onnx


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

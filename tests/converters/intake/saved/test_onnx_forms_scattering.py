"""Scattering and tables."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from exported_functions import normal, run_both, source_of
from keras import ops

from tfmp.converters.intake import open_source
from tfmp.converters.onnx.export.export import check_export, export_onnx
from tfmp.converters.onnx.fp16.rewriter import to_fp16
from tfmp.converters.onnx.graph.storage import open_once
from tfmp.converters.shared.errors import ConversionError


def test_what_is_scattered_to_the_same_place_adds_up():
    indices = np.array([[0], [2], [2], [2]], np.int32)
    expected, received = run_both(lambda i, v: ops.scatter(i, v, (4, 3)), indices, normal(4, 3))
    np.testing.assert_allclose(received, expected, rtol=1e-6)
    fixed = run_both(lambda v: ops.scatter(indices[:2], v[:2], (4, 3)), normal(2, 3))
    np.testing.assert_allclose(*fixed, rtol=1e-6)


@pytest.mark.parametrize("indices", [[[0], [1]], [[1], [1]]])
def test_places_that_are_known_to_differ_need_no_sum(indices):
    source = source_of(lambda v: ops.scatter(np.array(indices), v[:2], (4, 3)), normal(2, 3))
    (node,) = [node for node in export_onnx(source).graph if node.op_type == "ScatterND"]
    summed = indices[0] == indices[1]
    assert node.attributes.get_string("reduction", "none") == ("add" if summed else "none")


def lookup(**options) -> tuple[keras.Model, np.ndarray]:
    ids = keras.Input((4,), dtype="int64", name="ids")
    layer = keras.layers.IntegerLookup(vocabulary=[30, 5, 12], **options)
    return keras.Model(ids, layer(ids)), np.array([[5, 12, 30, 7], [30, 0, -1, 5]])


@pytest.mark.parametrize(
    "options", [{}, {"mask_token": 0}, {"num_oov_indices": 2}, {"output_mode": "multi_hot"}]
)
def test_integers_are_looked_up_in_a_table(options):
    model, ids = lookup(**options)
    source = open_source(model)
    exported = export_onnx(source)
    check_export(exported, source)
    (expected,) = source.forward({"ids": ids}).values()
    half, _ = to_fp16(exported)
    (received,) = open_once(half)([source.outputs[0].name], {"ids": ids})
    np.testing.assert_array_equal(received, expected)


@pytest.mark.parametrize(
    ("shape", "layer"),
    [
        ((), keras.layers.TextVectorization(vocabulary=["a", "b"], output_sequence_length=4)),
        ((4,), keras.layers.Hashing(5)),
    ],
)
def test_a_model_of_texts_is_cut_as_its_refusal_says(shape, layer):
    words = keras.layers.Embedding(5, 3, name="words")
    model = keras.Sequential([keras.Input(shape, dtype="string"), layer, words])
    with pytest.raises(ConversionError) as caught:
        export_onnx(open_source(model))
    way = caught.value.refusal.remedy.partition(": ")[2]
    source = open_source(eval(way, {"keras": keras, "model": model}))
    assert check_export(export_onnx(source), source) == 0.0


@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_nothing_is_hot_at_a_negative_index(dtype, axis):
    indices = np.array([[-1, 0, 2], [3, -4, 7]], np.int32)
    expected, received = run_both(lambda i: ops.one_hot(i, 4, axis=axis, dtype=dtype), indices)
    np.testing.assert_array_equal(expected.astype(int).sum(axis), [[0, 1, 1], [1, 0, 0]])
    np.testing.assert_array_equal(received, expected)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_rows_are_reduced_by_their_numbers(name, dtype):
    """Of the segments one is empty, and one row is of none."""
    function = getattr(tf.math, f"unsorted_segment_{name}")
    numbers = np.array([3, 0, 0, -1, 3, 1], np.int32)
    expected, received = run_both(
        lambda x, i: function(x, i, 4), (10 * normal(6, 4)).astype(dtype), numbers
    )
    np.testing.assert_allclose(received, expected, rtol=1e-6)

"""Resizing with filters, projective transforms and colour spaces, against TensorFlow."""

import keras
import numpy as np
import pytest
from exported_functions import normal, run_both, source_of
from keras import ops

from tfmp.converters.onnx.export.export import export_onnx
from tfmp.converters.shared.errors import ConversionError

IMAGES = normal(2, 9, 11, 3)


@pytest.mark.parametrize("size", [(5, 4), (13, 20), (5, 20)])
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic", "lanczos3", "area"])
@pytest.mark.parametrize("antialias", [False, True])
def test_resizing(size, interpolation, antialias):
    def resize(images):
        return ops.image.resize(images, size, interpolation=interpolation, antialias=antialias)

    np.testing.assert_allclose(*run_both(resize, IMAGES), rtol=1e-4, atol=2e-6)


def test_a_resizing_layer_with_antialiasing():
    layer = keras.layers.Resizing(4, 5, antialias=True)
    np.testing.assert_allclose(*run_both(layer, IMAGES), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [(5, 4), (13, 20)])
def test_the_nearest_pixel_in_words_of_todays_onnx(size):
    source = source_of(lambda images: ops.image.resize(images, size, "nearest"), IMAGES)
    (node,) = [node for node in export_onnx(source).graph if node.op_type == "Resize"]
    mode = node.attributes.get_string("coordinate_transformation_mode")
    assert mode == "half_pixel"


def test_a_filter_needs_images_of_a_fixed_size():
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec((None, None, 8, 3), name="images")])
    def resize(images):
        return tf.image.resize(images, (4, 4), antialias=True)

    from tfmp.converters.intake import open_source

    with pytest.raises(ConversionError, match="a filter needs"):
        export_onnx(open_source(resize))


AFFINE = np.array([1.13, 0.117, -0.71, 0.053, 0.91, 1.37, 0.0, 0.0], np.float32)
PERSPECTIVE = np.array([0.9, 0.1, 0.2, -0.1, 1.1, 0.4, 0.01, 0.02], np.float32)


@pytest.mark.parametrize("matrix", [AFFINE, PERSPECTIVE], ids=["affine", "perspective"])
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize(
    ("fill_mode", "fill_value"),
    [("constant", 0.0), ("constant", 2.5), ("nearest", 0.0), ("reflect", 0.0)],
)
def test_projective_transforms(matrix, interpolation, fill_mode, fill_value):
    def transform(images):
        return ops.image.affine_transform(
            images, matrix, interpolation, fill_mode=fill_mode, fill_value=fill_value
        )

    np.testing.assert_allclose(*run_both(transform, IMAGES), rtol=1e-3, atol=1e-4)


def test_a_transform_for_each_image():
    both = np.stack([AFFINE, PERSPECTIVE])
    np.testing.assert_allclose(
        *run_both(ops.image.affine_transform, IMAGES, both), rtol=1e-3, atol=1e-4
    )


def test_a_fill_mode_without_an_onnx_form():
    source = source_of(
        lambda images: ops.image.affine_transform(images, AFFINE, fill_mode="wrap"), IMAGES
    )
    with pytest.raises(ConversionError, match="received 'WRAP'"):
        export_onnx(source)


COLOURS = np.concatenate(
    [
        np.random.default_rng(1).random((1, 6, 11, 3), dtype=np.float32),
        # Greys, black, white, and two channels that are the largest together.
        np.array([[[0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.5]] * 11], np.float32).reshape(1, 3, 11, 3),
    ],
    axis=1,
)
TIES = np.array([[[[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 0, 0]]]], np.float32)


@pytest.mark.parametrize("images", [COLOURS, TIES], ids=["any", "ties"])
@pytest.mark.parametrize("function", [ops.image.rgb_to_hsv, ops.image.hsv_to_rgb])
def test_colour_spaces(function, images):
    np.testing.assert_allclose(*run_both(function, images), rtol=1e-5, atol=1e-6)

"""Resizing with filters, projective transforms and colour spaces, against TensorFlow."""

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import tensorflow as tf
from exported_functions import normal, run_both, source_of
from keras import ops

from tfmp.converters.intake import open_source
from tfmp.converters.onnx.export.export import check_export, export_onnx
from tfmp.converters.shared.errors import ConversionError

IMAGES = normal(2, 9, 11, 3)
FILTERS = ("nearest", "bilinear", "bicubic", "lanczos3", "area")


@pytest.mark.parametrize(
    ("interpolation", "size", "antialias"),
    [
        *((name, (5, 20), False) for name in FILTERS),
        *((name, (5, 4), True) for name in FILTERS),
        ("nearest", (13, 20), False),
        ("bilinear", (13, 20), True),
    ],
)
def test_resizing(interpolation, size, antialias):
    def resize(images):
        return ops.image.resize(images, size, interpolation=interpolation, antialias=antialias)

    np.testing.assert_allclose(*run_both(resize, IMAGES), rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("opset", [13, 18])
def test_a_resizing_between_transposes_loads(opset):
    """From 6 to 7 rows the scale is a fraction; ONNX Runtime moves transposes through Resize."""
    source = source_of(lambda images: ops.image.resize(images, (7, 9)), normal(2, 6, 6, 3))
    model = ir.to_proto(export_onnx(source, opset))
    onnx.checker.check_model(model, full_check=True)
    onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def exported(source):
    check_export(export_onnx(source), source)


@pytest.mark.parametrize(
    ("method", "antialias", "told"),
    [("bilinear", True, "ScaleAndTranslate"), ("area", False, r"differs from Keras by \S+ \(")],
)
def test_a_filter_needs_images_of_a_fixed_size(method, antialias, told):
    @tf.function(input_signature=[tf.TensorSpec((None, None, 8, 3), name="images")])
    def resize(images):
        return tf.image.resize(images, (4, 4), method, antialias=antialias)

    with pytest.raises(ConversionError, match=rf"{told}.*--input-shape"):
        exported(open_source(resize))
    exported(open_source(resize, input_shapes={"images": (None, 7, 8, 3)}))


AFFINE = np.array([1.13, 0.117, -0.71, 0.053, 0.91, 1.37, 0.0, 0.0], np.float32)
PERSPECTIVE = np.array([0.9, 0.1, 0.2, -0.1, 1.1, 0.4, 0.01, 0.02], np.float32)


@pytest.mark.parametrize(
    ("matrix", "interpolation", "fill_mode", "fill_value"),
    [
        pytest.param(AFFINE, "nearest", "constant", 0.0, id="affine, nearest"),
        pytest.param(AFFINE, "bilinear", "constant", 2.5, id="affine, constant"),
        pytest.param(PERSPECTIVE, "nearest", "constant", 2.5, id="perspective, nearest"),
        pytest.param(PERSPECTIVE, "bilinear", "nearest", 0.0, id="perspective, at the edge"),
        pytest.param(PERSPECTIVE, "bilinear", "reflect", 0.0, id="perspective, reflected"),
    ],
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


@pytest.mark.parametrize(
    ("method", "size"), [("bilinear", (4, 5)), ("bilinear", (1, 3)), ("nearest", (4, 5))]
)
def test_boxes_are_cut_out_of_images(method, size):
    """Within the image, upside down, and beyond its edges."""
    boxes = np.array([[0.1, 0.2, 0.7, 0.83], [0.9, 0.3, 0.2, 0.4], [-0.3, 0.5, 1.2, 1.1]])

    def cut(images, boxes):
        which = (tf.range(tf.shape(boxes)[0]) + 1) % 2
        return tf.image.crop_and_resize(images, boxes, which, size, method, -3.0)

    np.testing.assert_allclose(
        *run_both(cut, IMAGES, boxes.astype(np.float32)), rtol=1e-5, atol=1e-5
    )

"""Resizing of images."""

from onnx import TensorProto
from tf2onnx.graph import Node

from tfmp.converters.onnx.export.handlers.building import Attribute, Builder, handler

_MODES = {"ResizeBicubic": "cubic", "ResizeBilinear": "linear", "ResizeNearestNeighbor": "nearest"}


@handler(*_MODES, opset=13)
def resize(b: Builder, node: Node) -> None:
    """To sizes in whole numbers: of a scale, runtimes and shape inference make different ones.

    floor(12 * float32(7 / 12)) is 7 in ONNX Runtime's arithmetic and 6 in ONNX's shape inference.
    The sizes name every axis, as ONNX Runtime moves transposes through a Resize whose `axes` name
    a few, and then refuses to load it.
    """
    images, size = node.input
    shape = b.graph.get_shape(images) or [-1] * 4

    def kept(axis: int) -> str:
        if shape[axis] >= 0:
            return b.const([shape[axis]], "int64")
        return b.op("Gather", b.op("Shape", images), b.const([axis], "int64"))

    sizes = b.op("Concat", kept(0), kept(3), b.cast(size, TensorProto.INT64), axis=0)
    options: dict[str, Attribute] = {"mode": _MODES[node.type]}
    if options["mode"] == "cubic":
        options |= {"cubic_coeff_a": -0.5, "exclude_outside": 1}
    places, rounding = "asymmetric", "floor"
    for name, own in (("align_corners", "align_corners"), ("half_pixel_centers", "half_pixel")):
        if node.get_attr_value(name, 0):
            # TensorFlow takes floor((x + 1/2) / scale): half a pixel less, and halves rounded up.
            places, rounding = own, "round_prefer_ceil"
    options |= {"coordinate_transformation_mode": places, "nearest_mode": rounding}
    planes = b.op("Transpose", images, perm=[0, 3, 1, 2])
    b.finish("Transpose", b.op("Resize", planes, "", "", sizes, **options), perm=[0, 2, 3, 1])

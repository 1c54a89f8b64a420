"""FLOPs of matrix products and convolutions, from their shapes and settings."""

from math import prod
from typing import Any

from tfmp.roofline.program import Array, Instruction


def dot_flops(line: Instruction, left: Array, right: Array) -> int:
    """Two for each multiplication of a matrix product."""
    axes = line.proto.dot_dimension_numbers.lhs_contracting_dimensions
    return 2 * line.array.size * prod(left.dims[axis] for axis in axes)


def convolution_flops(line: Instruction, left: Array, right: Array) -> int:
    """Two for each product of a pixel and a weight, without pixels that are padding."""
    axes, result = line.proto.convolution_dimension_numbers, line.array
    spatial = zip(
        axes.input_spatial_dimensions,
        axes.output_spatial_dimensions,
        line.proto.window.dimensions,
        strict=True,
    )
    places = prod(
        _valid_products(left.dims[pixels], result.dims[outputs], window)
        for pixels, outputs, window in spatial
    )
    batches = left.dims[axes.input_batch_dimension] // (line.proto.batch_group_count or 1)
    # The kernel's input features are those of one group.
    inputs = right.dims[axes.kernel_input_feature_dimension]
    return 2 * batches * inputs * result.dims[axes.output_feature_dimension] * places


def _valid_products(pixels: int, outputs: int, window: Any) -> int:
    """Number of (output, weight) pairs along one axis whose pixel is neither padding nor a gap."""
    last = (pixels - 1) * window.base_dilation
    found = 0
    for weight in range(window.size):
        # Output o meets the pixel at o * stride + weight * dilation - padding.
        first = weight * window.window_dilation - window.padding_low
        places = range(first, first + outputs * window.stride, window.stride)
        found += sum(0 <= place <= last and place % window.base_dilation == 0 for place in places)
    return found

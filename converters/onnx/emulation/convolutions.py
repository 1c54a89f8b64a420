"""Convolutions and average pools whose sums are held in FP16: products with shifted images.

The order of the terms is (position in the kernel, channel), as in implicit products over
channels-last images.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from tfmp.converters.onnx.emulation.sum_builder import SumBuilder, slice_end
from tfmp.converters.onnx.graph import (
    NotStaticError,
    operand,
    optional,
    sizes_from,
)


def sum_conv(build: SumBuilder, node: ir.Node, block: int) -> ir.Value | None:
    """A convolution whose sums are held in FP16; None if one block holds them."""
    x, weights = operand(node, 0), operand(node, 1)
    shape = sizes_from(weights)
    spatial, kernel = len(shape) - 2, shape[2:]
    if shape[1] * math.prod(kernel) <= block:
        return None
    strides, dilations = (
        node.attributes.get_ints(name, [1] * spatial) for name in ("strides", "dilations")
    )
    pads = _pads(node, x, kernel, strides, dilations)
    return _convolved(build, node, x, weights, shape, (strides, dilations, pads))


def sum_pool(build: SumBuilder, node: ir.Node, block: int) -> ir.Value | None:
    """An average pool: a convolution of each channel with ones, over the pixels of each window."""
    x, kernel = operand(node, 0), node.attributes.get_ints("kernel_shape", [])
    spatial = len(kernel)
    if math.prod(kernel) <= block:
        return None
    strides, dilations = (
        node.attributes.get_ints(name, [1] * spatial) for name in ("strides", "dilations")
    )
    if node.attributes.get_int("ceil_mode", 0):
        raise NotStaticError
    pads = _pads(node, x, kernel, strides, dilations)
    counted = pads if node.attributes.get_int("count_include_pad", 0) else [0] * len(pads)
    apart = build.reshape(x, [-1, 1], build.sizes(x, 2, 2 + spatial))
    taps = build.floats(np.ones((1, 1, *kernel)))
    window = strides, dilations, pads
    total = _convolved(build, node, apart, taps, [1, 1, *kernel], window)
    count = build.floats(math.prod(kernel))
    if pads != counted:
        image = build.op("Add", build.zeros_like(apart), build.floats(1))
        count = build.op("Conv", image, taps, strides=strides, dilations=dilations, pads=pads)
    mean = build.op("Div", total, count)
    return build.reshape(mean, build.sizes(x, 0, 2), build.sizes(mean, 2, 2 + spatial))


def _convolved(
    build: SumBuilder,
    node: ir.Node,
    x: ir.Value,
    weights: ir.Value,
    shape: Sequence[int],
    window: tuple[Sequence[int], Sequence[int], Sequence[int]],
) -> ir.Value:
    """A convolution as a product of its weights with shifted copies of the image.

    Args:
        build: puts the nodes.
        node: the convolution, or an average pool.
        x: the image.
        weights: of shape (O, C/g, k...).
        shape: theirs.
        window: strides, dilations and pads.
    """
    strides, dilations, pads = window
    outputs, channels, kernel = shape[0], shape[1], shape[2:]
    spatial, positions = len(kernel), math.prod(kernel)
    groups = node.attributes.get_int("group", 1)
    flat = build.transpose(weights, [0, *range(2, 2 + spatial), 1])
    if any(pads):
        sides = [0, 0, *pads[:spatial], 0, 0, *pads[spatial:]]
        x = build.op("Pad", x, build.integers(sides))
    places = list(itertools.product(*map(range, kernel)))
    ends = [
        [slice_end((k - 1 - i) * d) for i in range(k)]
        for k, d in zip(kernel, dilations, strict=True)
    ]
    axes, steps = build.integers(list(range(2, 2 + spatial))), build.integers(strides)

    def shifted(place: Sequence[int]) -> ir.Value:
        starts = build.integers([i * d for i, d in zip(place, dilations, strict=True)])
        stops = build.integers([axis[i] for axis, i in zip(ends, place, strict=True)])
        return build.op("Slice", x, starts, stops, axes, steps)

    image = build.sizes(shifted(places[0]), 2, 2 + spatial)
    # Copies of the image for as few positions at a time as fill whole blocks: all at once would
    # take the memory of the image times the size of the kernel.
    step = build.block // math.gcd(build.block, channels)
    total = None
    for start in range(0, positions, step):
        taps = [shifted(place) for place in places[start : start + step]]
        total = _added(build, total, flat, taps, (outputs, channels, groups), start, positions)
    assert total is not None
    total = build.reshape(total, [0, outputs], image)
    bias = optional(node, 2)
    if bias is None:
        return total
    return build.op("Add", total, build.reshape(bias, [outputs] + [1] * spatial))


def _added(
    build: SumBuilder,
    before: ir.Value | None,
    flat: ir.Value,
    taps: Sequence[ir.Value],
    sizes: tuple[int, int, int],
    start: int,
    positions: int,
) -> ir.Value:
    """The total with the products of some kernel positions added.

    Args:
        before: the total so far; None for the first.
        flat: weights in the order (O, k..., C/g).
        taps: the image shifted to each of these positions.
        sizes: outputs, channels of a group, groups.
        start: the first of the positions.
        positions: number of positions of the kernel.
    """
    outputs, channels, groups = sizes
    patches = build.op("Concat", *taps, axis=1) if len(taps) > 1 else taps[0]
    depth, whole = len(taps) * channels, positions * channels
    if groups > 1:
        split = build.reshape(patches, [0, len(taps), groups, channels, -1])
        patches = build.transpose(split, [0, 2, 1, 3, 4])
        weights = build.reshape(flat, [groups, outputs // groups, whole])
        b, ranks = build.reshape(patches, [0, groups, depth, -1]), (3, 4)
    else:
        weights = build.reshape(flat, [outputs, whole])
        b, ranks = build.reshape(patches, [0, depth, -1]), (2, 3)
    if depth < whole:
        ends = [start * channels], [start * channels + depth], [ranks[0] - 1]
        weights = build.op("Slice", weights, *map(build.integers, ends))
    return build.product(weights, b, ranks, depth, before)


def _pads(
    node: ir.Node,
    x: ir.Value,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[int]:
    """Pads before and behind every axis, whichever way the node says them."""
    how = node.attributes.get_string("auto_pad", "NOTSET")
    if how == "NOTSET":
        return node.attributes.get_ints("pads", [0] * 2 * len(kernel))
    if how == "VALID":
        return [0] * 2 * len(kernel)
    totals = [
        max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
        for n, k, s, d in zip(sizes_from(x, 2), kernel, strides, dilations, strict=True)
    ]
    small, large = [t // 2 for t in totals], [t - t // 2 for t in totals]
    return [*small, *large] if how == "SAME_UPPER" else [*large, *small]

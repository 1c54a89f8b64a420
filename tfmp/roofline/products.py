"""FLOPs of matrix products and convolutions, from their shapes and settings."""

import re
from math import prod

from tfmp.roofline.hlo import Array, Instruction


def dot_flops(line: Instruction, left: Array, right: Array) -> int:
    """Two for each multiplication of a matrix product."""
    contracted = prod(left.dims[dim] for dim in line.numbers("lhs_contracting_dims"))
    return 2 * line.array.size * contracted


def convolution_flops(line: Instruction, left: Array, right: Array) -> int:
    """Two for each product of a pixel and a weight, without pixels that are padding."""
    inputs, kernel, outputs = re.split("_|->", (line.text("dim_labels") or ""))
    spatial = sorted(label for label in kernel if label.isdigit())
    window = window_of(line)
    places = 1
    for index, label in enumerate(spatial):
        places *= _valid_products(
            pixels=left.dims[inputs.index(label)],
            outputs=line.array.dims[outputs.index(label)],
            size=window["size"][index],
            stride=window["stride"][index],
            before=window["pad"][index],
            spread=window["lhs_dilate"][index],
            dilation=window["rhs_dilate"][index],
        )
    batches = left.dims[inputs.index("b")] // (line.numbers("batch_group_count") or (1,))[0]
    # The kernel's input features are those of one group.
    features = right.dims[kernel.index("i")] * line.array.dims[outputs.index("f")]
    return 2 * batches * features * places


def _valid_products(
    pixels: int, outputs: int, size: int, stride: int, before: int, spread: int, dilation: int
) -> int:
    """Number of (output, weight) pairs along one axis whose pixel is neither padding nor a gap."""
    last = (pixels - 1) * spread
    found = 0
    for weight in range(size):
        # Output o meets the pixel at o * stride + weight * dilation - before.
        first = weight * dilation - before
        places = range(first, first + outputs * stride, stride)
        found += sum(0 <= place <= last and place % spread == 0 for place in places)
    return found


def window_of(line: Instruction) -> dict[str, tuple[int, ...]]:
    """The window of a convolution by parts; padding is the one before the first pixel."""
    text = line.text("window") or ""
    parts = dict(part.split("=") for part in text.split())
    sizes = tuple(int(size) for size in parts.get("size", "1").split("x"))
    ones = "x".join("1" * len(sizes))
    found = {
        name: tuple(int(number) for number in parts.get(name, ones).split("x"))
        for name in ("stride", "lhs_dilate", "rhs_dilate")
    }
    pads = parts.get("pad", "x".join(["0_0"] * len(sizes)))
    return {
        "size": sizes,
        "pad": tuple(int(pad.split("_")[0]) for pad in pads.split("x")),
        **found,
    }

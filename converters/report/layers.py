"""The picture of the error by layer, and the table behind it."""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from tfmp.converters.report.explanation import Explanation, LayerError
from tfmp.converters.report.summary import number, printable
from tfmp.shared.wording import listed

# Errors below this are float32's own; the scale begins here.
_SMALLEST_ERROR = 1e-7

# On a linear scale an error this many times the usual one leaves nothing of the others.
_FAR = 20

# More bars are no longer read at a glance, more rows no longer at all.
_MOST_BARS = 40
_MOST_ROWS = 200

# Types of operations, and nodes, that are named; of a layer with more, the number of the others.
_MOST_NAMED = 4


@dataclass(frozen=True)
class LayerBar:
    """One row of the picture.

    Attributes:
        label: name of the layer.
        text: its errors in words.
        length: length of the bar, which shows the error at this layer with the whole model in
            FP16, as a share of the track.
        alone: place of the error with only this layer in FP16; 0 without an error.
        culprit: whether this is the layer to look at first.
    """

    label: str
    text: str
    length: float
    alone: float
    culprit: bool


@dataclass(frozen=True)
class LayerPicture:
    """A picture of the error by layer.

    Attributes:
        bars: the bars in the order of execution.
        scale: "linear" or "logarithmic".
        more: number of layers that are left out.
    """

    bars: list[LayerBar]
    scale: str
    more: int


class ErrorScale:
    """A scale on which some errors can be told apart.

    Attributes:
        logarithmic: whether it is; otherwise it is linear.
    """

    def __init__(self, errors: Iterable[float]) -> None:
        """Chooses the scale for errors, some of which may be infinite."""
        errors = [error for error in errors if error > 0]
        finite = [error for error in errors if math.isfinite(error)]
        self._largest = max([*finite, 10 * _SMALLEST_ERROR])
        # Errors that lie close together are told apart on a linear scale only.
        far = self._largest > _FAR * statistics.median(finite or [self._largest])
        self.logarithmic = len(finite) < len(errors) or far

    def share(self, error: float) -> float:
        """The place of an error on the scale, from 0 to 1."""
        if math.isinf(error):
            return 1.0
        if not self.logarithmic:
            return error / self._largest
        error = max(error, _SMALLEST_ERROR)
        return math.log(error / _SMALLEST_ERROR) / math.log(self._largest / _SMALLEST_ERROR)


def layer_bars(explanation: Explanation) -> LayerPicture:
    """The layers that matter most, in the order of execution."""
    shown = _most_telling(explanation, _MOST_BARS)
    scale = ErrorScale([error for layer in shown for error in (layer.cumulative, layer.local)])
    named = explanation.culprit.layer if explanation.culprit else None
    bars = [
        LayerBar(
            label=layer.layer,
            text=_text(layer),
            length=scale.share(layer.cumulative),
            alone=scale.share(layer.local),
            culprit=layer.layer == named,
        )
        for layer in shown
    ]
    name = "logarithmic" if scale.logarithmic else "linear"
    return LayerPicture(bars, name, _left_out(explanation, shown))


def table_rows(explanation: Explanation) -> tuple[list[LayerError], int]:
    """The layers of the table in the order of execution, and the number of further layers."""
    shown = _most_telling(explanation, _MOST_ROWS)
    return shown, _left_out(explanation, shown)


def ops_text(layer: LayerError) -> str:
    """The types of a layer's operations."""
    return printable(listed(list(dict.fromkeys(layer.ops)), _MOST_NAMED))


def nodes_text(layer: LayerError) -> str:
    """The names that viewers of graphs have for a layer's nodes."""
    return printable(listed(layer.nodes, _MOST_NAMED))


def places(explanation: Explanation) -> dict[str, int]:
    """The place of each layer in the order of execution, by its name, which is its only one."""
    return {layer.layer: place for place, layer in enumerate(explanation.layers)}


def _most_telling(explanation: Explanation, count: int) -> list[LayerError]:
    """Layers with the largest jumps and errors of their own, in the order of execution."""
    layers = explanation.layers
    named = {explanation.first_nonfinite, explanation.largest_jump}

    def weight(index: int) -> tuple[bool, float]:
        layer = layers[index]
        return layer.layer in named, max(layer.jump, layer.local)

    order = sorted(range(len(layers)), key=weight, reverse=True)
    return [layers[index] for index in sorted(order[:count])]


def _left_out(explanation: Explanation, shown: list[LayerError]) -> int:
    return len(explanation.layers) - len(shown)


def _text(layer: LayerError) -> str:
    whole, alone = number(layer.cumulative), number(layer.local)
    if layer.nonfinite:
        whole = f"{layer.nonfinite:,} not finite"
    if layer.local_nonfinite:
        alone = f"{layer.local_nonfinite:,} not finite"
    return f"{whole} (alone {alone})"

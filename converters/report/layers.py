"""The picture of the error by layer, and the table behind it."""

import math
import statistics
from collections.abc import Iterable

from tfmp.converters.drift.verdict import Verdict
from tfmp.converters.report.explanation import Explanation, LayerError
from tfmp.converters.report.sections import Picture, Table, table_of
from tfmp.converters.report.summary import number
from tfmp.shared.html_page import NONE, Bar
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


def layer_picture(explanation: Explanation, failed: bool) -> Picture:
    """The layers that matter most, in the order of execution."""
    shown = _most_telling(explanation, _MOST_BARS)
    scale = ErrorScale(layer.cumulative for layer in shown)
    named = explanation.culprit.layer if explanation.culprit else None
    bars = tuple(
        Bar(
            f"{layer.layer} ← {'look here first' if failed else 'largest step'}"
            if layer.layer == named
            else layer.layer,
            _text(layer),
            scale.share(layer.cumulative),
            verdict=Verdict.FAIL if layer.layer == named and failed else None,
        )
        for layer in shown
    )
    kind = "logarithmic" if scale.logarithmic else "linear"
    more = len(explanation.layers) - len(shown)
    caption = f"Relative L2 error by layer in the order of execution, on a {kind} scale"
    return Picture(caption + (f"; {more} layers that change less: in the table" * bool(more)), bars)


def layer_table(explanation: Explanation) -> Table:
    """The numbers of the layers that matter most, in the order of execution."""
    shown = _most_telling(explanation, _MOST_ROWS)
    more = len(explanation.layers) - len(shown)
    return table_of(
        "All numbers by layer" + f"; the JSON report has {more} more layers" * bool(more),
        shown,
        {
            "Layer": lambda one: one.layer,
            "Operations": lambda one: listed(list(dict.fromkeys(one.ops)), _MOST_NAMED),
            "Error": lambda one: number(one.cumulative),
            "Jump": lambda one: number(one.jump),
            "Alone": lambda one: number(one.local),
            "Not finite": lambda one: f"{one.nonfinite:,}",
            "Not finite alone": lambda one: f"{one.local_nonfinite:,}",
            "Peak in FP32": lambda one: number(one.peak),
            "Nodes in viewers of graphs": lambda one: listed(one.nodes, _MOST_NAMED) or NONE,
        },
        ("Layer", "Operations", "Nodes in viewers of graphs"),
        folded=True,
    )


def _most_telling(explanation: Explanation, count: int) -> list[LayerError]:
    """Layers with the largest jumps and errors of their own, in the order of execution."""
    layers = explanation.layers
    named = {explanation.first_nonfinite, explanation.largest_jump}

    def weight(index: int) -> tuple[bool, float]:
        layer = layers[index]
        return layer.layer in named, max(layer.jump, layer.local)

    order = sorted(range(len(layers)), key=weight, reverse=True)
    return [layers[index] for index in sorted(order[:count])]


def _text(layer: LayerError) -> str:
    whole, alone = (
        f"{lost:,} not finite" if lost else number(error)
        for lost, error in (
            (layer.nonfinite, layer.cumulative),
            (layer.local_nonfinite, layer.local),
        )
    )
    return f"{whole} ({alone} with only this layer in FP16)"

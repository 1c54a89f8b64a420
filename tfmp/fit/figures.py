"""Pictures of a training: SVG that takes its colours from the page, light or dark."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tfmp.shared.html_page import COLOURS, INK, QUIET, inline_svg
from tfmp.shared.numerics import FLOAT16

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# More curves than this are no longer read at a glance.
_MOST_METRICS = 6

# Entries of the logs that have pictures of their own, or say nothing about learning.
_OWN = {"loss_scale", "skipped_steps", "underflow", "gradient_norm", "learning_rate"}

# Below so many points each one gets a mark.
_FEW = 30


def metric_curves(curves: Mapping[str, Sequence[float]], first_epoch: int) -> list[tuple[str, str]]:
    """The loss and the metrics by epoch: names, and a picture of training and validation each."""
    names = [name for name in curves if name not in _OWN]
    bases = list(dict.fromkeys(name.removeprefix("val_") for name in names))
    bases.sort(key=lambda name: name != "loss")
    pictures = []
    for place, base in enumerate(bases[:_MOST_METRICS]):
        figure = _figure(4.6, 2.7)
        axes = figure.subplots()
        for kind, name in enumerate((base, f"val_{base}")):
            values = curves.get(name, ())
            epochs = range(first_epoch + 1, first_epoch + len(values) + 1)
            label = "validation" if kind else "training"
            _line(axes, list(epochs), values, label, kind)
        axes.set_xlabel("epoch")
        axes.set_title(base, loc="left", fontsize="medium", color=INK)
        _whole_numbers(axes)
        axes.legend(frameon=False, labelcolor=INK, fontsize="small")
        pictures.append((base, inline_svg(figure, f"metric{place}")))
    return pictures


def scale_and_skips(
    steps: Sequence[int], scales: Sequence[float], skipped: Sequence[int], before: int
) -> str:
    """The loss scale over steps, and the steps skipped between readings; empty without readings.

    Args:
        steps: of the optimizer, at each reading.
        scales: the scale of the next step.
        skipped: the steps skipped since the first.
        before: steps of the optimizer before the first.
    """
    if not steps:
        return ""
    figure = _figure(6.0, 3.6)
    above, below = figure.subplots(2, sharex=True, height_ratios=(2, 1))
    _line(above, steps, scales, "loss scale", 0, step=True)
    above.set_yscale("log", base=2)
    above.set(ylabel="loss scale")
    new = [now - before for before, now in zip([0, *skipped], skipped, strict=False)]
    starts = [max(0, before), *steps]
    widths = [max(1, end - start) for start, end in zip(starts, steps, strict=False)]
    below.bar(
        starts[:-1], new, widths, align="edge", color=COLOURS[1], edgecolor=QUIET, linewidth=0.5
    )
    below.set(xlabel="step", ylabel="skipped", ylim=(0, max(1, *new) * 1.1))
    _whole_numbers(below, both=True)
    return inline_svg(figure, "scale")


def gradient_range(
    steps: Sequence[int],
    largest: Sequence[float | None],
    smallest: Sequence[float | None],
    is_float16: bool,
) -> str:
    """The gradients against the numbers that FP16 has; empty without measurements.

    Args:
        steps: of the optimizer, at each measurement.
        largest: the largest magnitude of all variables, times the loss scale.
        smallest: that of the variable where it is smallest.
        is_float16: whether the layers have FP16's range.
    """
    if not steps:
        return ""
    figure = _figure(6.0, 3.6)
    axes = figure.subplots()
    largest, smallest = (
        [math.nan if value is None else value for value in values] for values in (largest, smallest)
    )
    axes.fill_between(steps, smallest, largest, color=COLOURS[0], alpha=0.2, linewidth=0)
    _line(axes, steps, largest, "largest of all variables", 0)
    _line(axes, steps, smallest, "largest of the smallest variable", 2)
    if is_float16:
        limits = (
            (FLOAT16.max, "65504: overflow"),
            (FLOAT16.smallest_normal, "2⁻¹⁴: precision falls below"),
            (FLOAT16.smallest_subnormal, "2⁻²⁴: 0 below"),
        )
        for limit, name in limits:
            axes.axhline(limit, color=QUIET, linestyle=":", linewidth=1.2)
            axes.annotate(
                name,
                (1, limit),
                xycoords=("axes fraction", "data"),
                xytext=(-3, 3),
                textcoords="offset points",
                ha="right",
                color=QUIET,
                fontsize="small",
            )
        axes.set_ylim(FLOAT16.smallest_subnormal / 4, FLOAT16.max * 16)
    axes.set_yscale("log", base=2)
    axes.set(xlabel="step", ylabel="gradient times loss scale")
    _whole_numbers(axes)
    above = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 2, "borderaxespad": 0.2}
    axes.legend(frameon=False, labelcolor=INK, fontsize="small", **above)
    return inline_svg(figure, "range")


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _line(
    axes: "Axes", x: Sequence[int], y: Sequence[float], label: str, place: int, step: bool = False
) -> None:
    if not y:
        return
    finite = [value if math.isfinite(value) else math.nan for value in y]
    axes.plot(
        x,
        finite,
        label=label,
        color=COLOURS[place],
        linestyle=("-", "--", "-.")[place],
        marker="o" if len(x) < _FEW else None,
        markersize=3,
        drawstyle="steps-pre" if step else "default",
    )


def _whole_numbers(axes: "Axes", both: bool = False) -> None:
    from matplotlib.ticker import MaxNLocator

    for axis in (axes.xaxis, axes.yaxis) if both else (axes.xaxis,):
        # With more ticks than whole numbers in sight, matplotlib takes fractions of them.
        ticks = MaxNLocator(4 if axis is axes.yaxis else "auto", integer=True, min_n_ticks=1)
        axis.set_major_locator(ticks)

"""Pictures of an experiment: SVG that takes its colours from the page, light or dark."""

import math
from collections.abc import Callable, Sequence

from tfmp.experiment.arms import BASE
from tfmp.experiment.results import ArmResult
from tfmp.shared.html_page import COLOURS, INK, QUIET, Bar, inline_svg, scaled

# The styles of lines, beside their colours: one fewer, so that no two lines have both in common.
_STYLES = ("-", "--", "-.", ":")

# Losses beyond so many times the first one of float32 would hide all others.
_HIGHEST = 2.0


def loss_curves(results: Sequence[ArmResult]) -> str:
    """Training loss by epoch: a line for the mean of each training, a band over its seeds."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    axes = figure.subplots()
    top, lowest = 0.0, 0.0
    for place, result in enumerate(each for each in results if not each.arm.file):
        curves = [run.losses for run in result.runs if run.losses]
        epochs = [list(filter(math.isfinite, losses)) for losses in zip(*curves, strict=False)]
        shown = [(epoch, losses) for epoch, losses in enumerate(epochs, 1) if losses]
        if not shown:
            why = "not finite" if curves else "failed"
            axes.plot([], [], label=f"{result.arm.name} ({why})", color=QUIET)
            continue
        if result.arm.name == BASE:
            top = _HIGHEST * max(shown[0][1])
        x, means = [epoch for epoch, _ in shown], [sum(each) / len(each) for _, each in shown]
        low, high = [min(each) for _, each in shown], [max(each) for _, each in shown]
        lowest = min(lowest, *low)
        colour, style = COLOURS[place % len(COLOURS)], _STYLES[place % len(_STYLES)]
        label = result.arm.name
        if len(shown) < len(epochs):
            label += f" (finite in {len(shown)} of {len(epochs)} epochs)"
        axes.plot(x, means, ".", label=label, color=colour, linestyle=style)
        axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
    if top and axes.get_ylim()[1] > top:
        axes.set_ylim(top=top)
    if axes.get_ylim()[0] < 0 and lowest >= 0:
        axes.set_ylim(bottom=0)
    axes.set(xlabel="epoch", ylabel="training loss")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False, labelcolor=INK)
    return inline_svg(figure, "loss")


def metric_bars(results: Sequence[ArmResult], number: Callable[[float], str]) -> tuple[Bar, ...]:
    """The metric of every arm that was run."""
    bars = []
    for result in results:
        if result.runs:
            value = result.metric
            text = "failed" if value is None else number(value)
            length = abs(value or 0.0)
            bars.append(Bar(result.arm.name, text, length, verdict=_verdict(result)))
    return scaled(bars)


def _verdict(result: ArmResult) -> str | None:
    if result.arm.name == BASE:
        return None
    return {"as good": "PASS", "better": "PASS", "worse": "FAIL"}.get(
        str(result.finding), "INCONCLUSIVE"
    )

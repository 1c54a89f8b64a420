"""Pictures of an experiment: SVG that takes its colours from the page, light or dark."""

import math
from collections.abc import Callable, Sequence

from tfmp.experiment.arms import BASE
from tfmp.experiment.report import ArmResult, ExperimentReport
from tfmp.shared.html_page import COLOURS, INK, QUIET, Bar, inline_svg

# The styles of lines, beside their colours: one fewer, so that no two lines have both in common.
_STYLES = ("-", "--", "-.", ":")

# Losses beyond so many times the first one of float32 would hide all others.
_HIGHEST = 2.0


def loss_curves(report: ExperimentReport) -> str:
    """Training loss by epoch: a line for the mean of each training, a band over its seeds."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    axes = figure.subplots()
    top, lowest = 0.0, 0.0
    for place, result in enumerate(r for r in report.results if not r.arm.file):
        curves = [run.losses for run in result.runs if run.losses]
        epochs = range(1, min(map(len, curves), default=0) + 1)
        points = [[curve[epoch - 1] for curve in curves] for epoch in epochs]
        finite = [[loss for loss in each if math.isfinite(loss)] for each in points]
        shown = [(epoch, each) for epoch, each in zip(epochs, finite, strict=True) if each]
        if not shown:
            why = "not finite" if any(curves) else "failed"
            axes.plot([], [], label=f"{result.arm.name} ({why})", color=QUIET)
            continue
        if result.arm.name == BASE:
            top = _HIGHEST * max(shown[0][1])
        x = [epoch for epoch, _ in shown]
        means = [sum(each) / len(each) for _, each in shown]
        colour, style = COLOURS[place % len(COLOURS)], _STYLES[place % len(_STYLES)]
        axes.plot(x, means, label=result.arm.name, color=colour, linestyle=style)
        lowest = min(lowest, *(min(each) for _, each in shown), 0.0)
        low, high = [min(each) for _, each in shown], [max(each) for _, each in shown]
        axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
    if top and axes.get_ylim()[1] > top:
        axes.set_ylim(top=top)
    if axes.get_ylim()[0] < 0 and lowest >= 0:
        axes.set_ylim(bottom=0)
    axes.set(xlabel="epoch", ylabel="training loss")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False, labelcolor=INK)
    return inline_svg(figure, "loss")


def size_and_metric(report: ExperimentReport) -> str:
    """Each file by its size and its metric, with the range over seeds; empty without files."""
    from matplotlib.figure import Figure

    files = [result for result in report.results if result.arm.file and result.metric is not None]
    if not files:
        return ""
    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    axes = figure.subplots()
    for place, result in enumerate(files):
        values = [run.metric for run in result.runs if run.usable and run.metric is not None]
        size = (result.median(lambda run: run.file_bytes) or 0) / 2**10
        mean = sum(values) / len(values)
        latency = result.median(lambda run: run.latency_ms)
        speed = "" if latency is None else f", {latency:.3g} ms"
        axes.errorbar(
            [size],
            [mean],
            [[mean - min(values)], [max(values) - mean]],
            fmt="os^Dv<>ph*PX"[place % 12],
            color=COLOURS[place % len(COLOURS)],
            label=f"{result.arm.name}{speed}",
            capsize=4,
        )
    base = report.base.metric
    if base is not None:
        axes.axhline(base, color=QUIET, linestyle=":", label=f"{BASE}, not converted")
    axes.set(xlabel="size of the file, KiB", ylabel=report.task["metric"])
    axes.legend(frameon=False, labelcolor=INK, fontsize="small")
    return inline_svg(figure, "size")


def metric_bars(report: ExperimentReport) -> tuple[Bar, ...]:
    """The metric of every arm."""
    found = [(result, result.metric) for result in report.results]
    best = max((abs(value) for _, value in found if value is not None), default=0.0)
    return tuple(
        Bar(
            result.arm.name,
            "failed" if value is None else report.number(value),
            abs(value) / best if value is not None and best else 0.0,
            verdict=_verdict(result),
        )
        for result, value in found
        if result.runs
    )


def memory_bars(report: ExperimentReport) -> tuple[Bar, ...]:
    """The memory that training took."""
    from tfmp.machine import bytes_text

    return _bars(report.results, lambda r: r.median(lambda run: run.memory_bytes), bytes_text)


def drift_bars(report: ExperimentReport) -> tuple[Bar, ...]:
    """The drift of each file against its float32 original."""
    return _bars(
        report.results, lambda r: r.median(lambda run: run.rel_l2), lambda value: f"{value:.1e}"
    )


def _bars(
    results: Sequence[ArmResult],
    value_of: Callable[[ArmResult], float | None],
    text: Callable[[float], str],
) -> tuple[Bar, ...]:
    found = [(result.arm.name, value_of(result)) for result in results]
    known = [(name, value) for name, value in found if value is not None]
    most = max((value for _, value in known if math.isfinite(value)), default=0.0)
    return tuple(
        Bar(name, text(value), min(1.0, value / most) if most else 0.0) for name, value in known
    )


def _verdict(result: ArmResult) -> str | None:
    if result.arm.name == BASE:
        return None
    return {"as good": "PASS", "better": "PASS", "worse": "FAIL"}.get(
        str(result.finding), "INCONCLUSIVE"
    )

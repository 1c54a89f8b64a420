"""The roofline as a picture: SVG that takes its colours from the page, light or dark."""

from typing import TYPE_CHECKING

from tfmp.roofline.cards import FLOAT32, TF32
from tfmp.roofline.roof import Roofline, count_text
from tfmp.roofline.verdict import COMPUTE_BOUND, LAUNCH_BOUND, MEMORY_BOUND, Placement
from tfmp.shared.html_page import COLOURS, INK, QUIET, inline_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend

_COLOURS = dict(zip((COMPUTE_BOUND, MEMORY_BOUND, LAUNCH_BOUND), COLOURS, strict=False))
_MOST_NAMES = 5
# Where a name may stand beside its point, in points: below or above, to the right or to the left.
_BESIDE = ((5, -9), (5, 4), (-5, -9), (-5, 4), (5, -19), (-5, -19))
# Roofs nearer than this factor are drawn within the height of one line of text.
_APART = 1.5


def roof_picture(roofline: Roofline, variant: str) -> str:
    """The layers and the step of one variant below the roofs of the dtypes that they multiply in.

    Empty without a step or layer that computes.
    """
    from matplotlib.figure import Figure

    layers = {path: row[variant] for path, row in roofline.layers.items() if variant in row}
    step = roofline.steps.get(variant)
    named = {"the step": step, **layers} if step is not None else dict(layers)
    points = {name: place for name, place in named.items() if place.work.flops and place.seconds}
    if not points:
        return ""
    peaks = roofline.peaks
    dtypes = {
        TF32 if FLOAT32 in dtype and "TF32" in variant else dtype for dtype in _dtypes(points)
    }
    rates = {dtype: peaks.flops[dtype] for dtype in sorted(dtypes) if dtype in peaks.flops}
    rates = rates or {FLOAT32: peaks.rate(FLOAT32)}
    ridges = [rate / peaks.bandwidth for rate in rates.values()]
    places = [*ridges, *(place.work.intensity for place in points.values())]
    low, high = min(places) / 4, max(places) * 4

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.set(xscale="log", yscale="log", xlabel="FLOPs for each byte", ylabel="FLOP/s")
    for rate, ridge in zip(rates.values(), ridges, strict=True):
        roof = [low, ridge, high]
        axes.plot(roof, [min(rate, x * peaks.bandwidth) for x in roof], color=QUIET, linewidth=1)
    for names, rate in _told_together(rates):
        axes.annotate(names, (high, rate), (8, -3), textcoords="offset points", color=QUIET)
    for verdict, colour in _COLOURS.items():
        mine = [place for place in points.values() if place.verdict == verdict and place != step]
        x = [place.work.intensity for place in mine]
        y = [place.work.flops / place.seconds for place in mine]
        axes.plot(x, y, "o", color=colour, markersize=5, label=f"{verdict} layer" if mine else None)
    if "the step" in points and step is not None:
        speed = step.work.flops / step.seconds
        colour = _COLOURS[step.verdict]
        axes.plot(step.work.intensity, speed, "*", color=colour, markersize=11, label="the step")
    axes.set_xlim(low, high)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_formatter(lambda value, _: count_text(value))
    legend = axes.legend(frameon=False, labelcolor=INK, fontsize="small")
    figure.draw_without_rendering()  # only then has the legend its place
    slowest = sorted(layers, key=lambda name: -layers[name].seconds)[:_MOST_NAMES]
    _name({name: points[name] for name in slowest if name in points}, axes, legend)
    return inline_svg(figure, "roof")


def _name(points: dict[str, Placement], axes: "Axes", legend: "Legend") -> None:
    """Writes the name of each point beside it, where no other name stands; else leaves it out."""
    frame, taken = axes.get_window_extent(), [legend.get_window_extent()]
    for name, place in points.items():
        at = (place.work.intensity, place.work.flops / place.seconds)
        for x, y in _BESIDE:
            text = axes.annotate(
                name.rpartition("/")[2],
                at,
                (x, y),
                textcoords="offset points",
                ha="left" if x > 0 else "right",
                color=INK,
                fontsize="small",
            )
            text.set_in_layout(False)
            box = text.get_window_extent()
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1
            if inside and not box.count_overlaps(taken):
                taken.append(box)
                break
            text.remove()


def _told_together(rates: dict[str, float]) -> list[tuple[str, float]]:
    """The roofs' names, from low to high; names of roofs that lie too close are one."""
    told: list[tuple[str, float]] = []
    for dtype, rate in sorted(rates.items(), key=lambda item: item[1]):
        if told and rate < _APART * told[-1][1]:
            told[-1] = (f"{told[-1][0]}, {dtype}", told[-1][1])
        else:
            told.append((dtype, rate))
    return told


def _dtypes(points: dict[str, Placement]) -> set[str]:
    return {dtype for place in points.values() for dtype in place.work.products}

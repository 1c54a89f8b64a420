"""The roofline as a picture: SVG that takes its colours from the page, light or dark."""

from collections.abc import Mapping

from tfmp.roofline.peaks import FLOAT32, TF32, Peaks
from tfmp.roofline.verdict import COMPUTE_BOUND, LAUNCH_BOUND, MEMORY_BOUND, Placement
from tfmp.roofline.work import count_text
from tfmp.shared.html_page import COLOURS, INK, QUIET, inline_svg

_COLOURS = dict(zip((COMPUTE_BOUND, MEMORY_BOUND, LAUNCH_BOUND), COLOURS, strict=False))
_LINES = ("-", "--", "-.", ":")


def roof_picture(peaks: Peaks, step: Placement | None, layers: Mapping[str, Placement]) -> str:
    """The layers and the step of one variant below the roofs of the dtypes that they multiply in.

    Empty without a step or layer that computes.
    """
    from matplotlib.figure import Figure

    named = {"the step": step, **layers} if step is not None else dict(layers)
    points = {name: place for name, place in named.items() if place.work.flops and place.seconds}
    if not points:
        return ""
    rates = _rates(peaks, points)
    ridges = [rate / peaks.bandwidth for rate in rates.values()]
    places = [*ridges, *(place.work.intensity for place in points.values())]
    low, high = min(places) / 4, max(places) * 4

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.set(xscale="log", yscale="log", xlabel="FLOPs for each byte", ylabel="FLOP/s")
    for (name, rate), ridge, line in zip(rates.items(), ridges, _LINES, strict=False):
        roof = [low, ridge, high]
        heights = [min(rate, x * peaks.bandwidth) for x in roof]
        label = f"{name}, {count_text(rate)}FLOP/s"
        axes.plot(roof, heights, color=QUIET, linewidth=1, linestyle=line, label=label)
    for place in points.values():
        mark, size = ("*", 11) if place is step else ("o", 5)
        colour, at = _COLOURS[place.verdict], (place.work.intensity, _speed(place))
        axes.plot(*at, mark, color=colour, markersize=size)
    for kind in dict.fromkeys(place.verdict for place in points.values()):
        axes.plot([], [], "o", color=_COLOURS[kind], markersize=5, label=kind)
    slowest = max(points.keys() - {"the step"}, key=lambda name: points[name].seconds, default="")
    if slowest:
        at, label = (points[slowest].work.intensity, _speed(points[slowest])), f"slowest: {slowest}"
        axes.plot(*at, "o", color=INK, fillstyle="none", markersize=10, label=label)
    axes.set_xlim(low, high)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_formatter(lambda value, _: count_text(value))
    axes.legend(frameon=False, labelcolor=INK, fontsize="small", loc="upper left")
    return inline_svg(figure, "roof")


def _speed(place: Placement) -> float:
    return place.work.flops / place.seconds


def _rates(peaks: Peaks, points: Mapping[str, Placement]) -> dict[str, float]:
    """The roofs of the dtypes that the points multiply in."""
    tf32 = any(place.setting.tf32 for place in points.values())
    dtypes = {dtype for place in points.values() for dtype in place.work.products}
    names = {TF32 if tf32 and dtype == FLOAT32 else dtype for dtype in dtypes}
    found = {name: peaks.flops[name] for name in sorted(names) if name in peaks.flops}
    return found or {FLOAT32: peaks.rate(FLOAT32)}

"""Pictures of a sweep: SVG that takes its colours from the page, light or dark."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tfmp.shared.html_page import COLOURS, INK, inline_svg
from tfmp.sweep.report import SweepReport, SweepRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MIB = 2**20
_AXES = {"batch": "samples in a batch", "model size": "model size"}


def throughput(report: SweepReport, rows: Sequence[SweepRow], salt: str) -> str:
    """Samples per second over the sizes: a line for each variant, a band over its rounds."""

    def of(row: SweepRow) -> tuple[float, float, float] | None:
        if row.step is None:
            return None
        low, mid, high = row.step.high, row.step.median, row.step.low
        return row.batch_size / low, row.batch_size / mid, row.batch_size / high

    return _figure(report, rows, of, "samples a second", salt)


def memory(report: SweepReport, rows: Sequence[SweepRow], salt: str) -> str:
    """Memory of a step over the sizes; empty if it is unknown."""

    def of(row: SweepRow) -> tuple[float, float, float] | None:
        return None if row.memory is None else (row.memory.bytes / _MIB,) * 3

    if not any(map(of, rows)):
        return ""
    return _figure(report, rows, of, "memory, MiB", salt)


def _figure(
    report: SweepReport,
    rows: Sequence[SweepRow],
    of: Callable[[SweepRow], tuple[float, float, float] | None],
    name: str,
    salt: str,
) -> str:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6, 3.2), layout="constrained")
    axes = figure.subplots()
    for variant in dict.fromkeys(row.variant for row in rows):
        own = [row for row in rows if row.variant == variant]
        known = [(report.size_of(row), found) for row in own if (found := of(row)) is not None]
        colour, line = _style(rows, own[0])
        # A variant that never ran keeps its place in the legend.
        x, values = [size for size, _ in known], [value for _, value in known]
        middle = [mid for _, mid, _ in values]
        axes.plot(x, middle, label=variant, marker="o", markersize=3, color=colour, linestyle=line)
        low, high = [low for low, _, _ in values], [high for *_, high in values]
        axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
        failed = [report.size_of(row) for row in own if row.step is None]
        edge = axes.get_xaxis_transform()
        axes.plot(failed, [0.0] * len(failed), "x", color=colour, transform=edge, clip_on=False)
    _scale(axes, sorted({report.size_of(row) for row in rows}))
    axes.set(xlabel=_AXES[report.axis], ylabel=name)
    axes.legend(frameon=False, labelcolor=INK, fontsize="small")
    return inline_svg(figure, salt)


def _style(rows: Sequence[SweepRow], row: SweepRow) -> tuple[str, str]:
    """A colour for each policy; lines of variants without XLA are dashed."""
    names = list(dict.fromkeys(_uncompiled(each) for each in rows))
    colour = COLOURS[names.index(_uncompiled(row)) % len(COLOURS)]
    return colour, "--" if row.xla is False else "-"


def _uncompiled(row: SweepRow) -> str:
    return row.variant.partition(",")[0]


def _scale(axes: "Axes", sizes: Sequence[int]) -> None:
    """Both axes are logarithmic, with a mark at each size."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    low, high = axes.get_ylim()
    if low > 0 and high / low < 4:  # so that small differences do not fill the picture
        middle = (low * high) ** 0.5
        axes.set_ylim(middle / 2, middle * 2)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())

"""Figures of a sweep: a measure over sizes, a line for each variant, with a band and crosses."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from tfmp.profiling.steps import StepProfile
from tfmp.shared.html_page import COLOURS, INK, inline_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The low end, the middle and the high end of a measure; None if it is unknown.
Measure: TypeAlias = Callable[[StepProfile], tuple[float, float, float] | None]


def throughput(row: StepProfile) -> tuple[float, float, float] | None:
    """Samples a second."""
    if row.step is None:
        return None
    size, step = row.batch_size, row.step
    return size / step.high, size / step.median, size / step.low


def mebibytes(row: StepProfile) -> tuple[float, float, float] | None:
    """The memory of a step."""
    return None if row.memory is None else (row.memory.bytes / 2**20,) * 3


def over_sizes(
    rows: Mapping[int, Sequence[StepProfile]], of: Measure, axes_names: tuple[str, str], salt: str
) -> str:
    """A measure over the sizes; empty if it is known of no row.

    Args:
        rows: by size.
        of: the measure.
        axes_names: of the sizes, and of the measure.
        salt: as in `inline_svg`.
    """
    from matplotlib.figure import Figure

    every = [row for each in rows.values() for row in each]
    if not any(map(of, every)):
        return ""
    figure = Figure(figsize=(4.6, 3.2), layout="constrained")
    axes = figure.subplots()
    policies = list(dict.fromkeys(map(_uncompiled, every)))
    for variant in dict.fromkeys(row.variant for row in every):
        own = [(size, row) for size, each in rows.items() for row in each if row.variant == variant]
        first = own[0][1]
        colour = COLOURS[policies.index(_uncompiled(first)) % len(COLOURS)]
        line = "--" if first.xla is False else "-"
        # A variant that never ran keeps its place in the legend.
        known = [(size, *found) for size, row in own if (found := of(row)) is not None]
        x, low, middle, high = zip(*known, strict=True) if known else ((),) * 4
        axes.plot(x, middle, label=variant, marker="o", markersize=3, color=colour, linestyle=line)
        axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
        failed = [size for size, row in own if row.step is None]
        edge = axes.get_xaxis_transform()
        axes.plot(failed, [0.0] * len(failed), "x", color=colour, transform=edge, clip_on=False)
    _scale(axes, sorted(rows))
    axes.set(xlabel=axes_names[0], ylabel=axes_names[1])
    axes.legend(frameon=False, labelcolor=INK, fontsize="small")
    return inline_svg(figure, salt)


def _uncompiled(row: StepProfile) -> str:
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

"""Reports of steps as self-contained HTML files, in the look of all reports."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from tfmp.machine import DEVICE_MEMORY, PROCESS_NOISE_BYTES, bytes_text, seconds_text
from tfmp.precision import has_tensor_cores, is_narrow
from tfmp.profiling.report import WORTHWHILE_MEMORY, WORTHWHILE_SPEEDUP, ProfileReport
from tfmp.profiling.sizes import SweepReport
from tfmp.profiling.steps import StepProfile, StepReport
from tfmp.roofline import roof_picture
from tfmp.shared.html_page import COLOURS, INK, Bar, inline_svg, page_environment

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More layers than this are no longer read at a glance.
_MOST_BARS = 15
_MOST_ROWS = 200

_MIB = 2**20
_AXES = {"batch": "samples in a batch", "model size": "model size"}


def to_html(report: StepReport) -> str:
    """A page with inline style and pictures, without scripts or external resources."""
    if isinstance(report, SweepReport):
        name, parts = "sweep", _sweep_parts(report)
    elif isinstance(report, ProfileReport):
        name, parts = "profile", _profile_parts(report)
    page = page_environment("tfmp.profiling").get_template(f"{name}.html.j2")
    return page.render(report=report, **parts) + "\n"


def _profile_parts(report: ProfileReport) -> dict[str, object]:
    from markupsafe import Markup

    row, roofline = report.main, report.roofline
    limits = [each.largest_batch for each in report.variants if each.largest_batch]
    under_roof = roofline.layer_cells(row.variant, _MOST_ROWS) if row and roofline else []
    return {
        "layers": report.layer_cells(_MOST_ROWS),
        "step_bars": step_bars(report),
        "memory_bars": memory_bars(report),
        "layer_bars": layer_bars(report),
        "memory_source": _memory_source(report.variants),
        "batch_bars": batch_bars(report),
        "batch_bound": limits[0].bound if limits else "",
        "noise": noise_note(report),
        "more": max(0, len(report.layers) - _MOST_ROWS),
        "limited_layers": under_roof,
        "roof": Markup(roof_picture(roofline, row.variant) if row and roofline else ""),
        "pipeline_bars": pipeline_bars(report),
    }


def _sweep_parts(report: SweepReport) -> dict[str, object]:
    from markupsafe import Markup

    return {
        "pictures": [
            (
                where,
                Markup(_throughput(report, rows, f"speed{place}")),
                Markup(_memory(report, rows, f"memory{place}")),
            )
            for place, (where, rows) in enumerate(report.groups().items())
        ],
        "memory_source": _memory_source(report.rows),
    }


def _memory_source(rows: Iterable[StepProfile]) -> str:
    return " and ".join(sorted({row.memory.source for row in rows if row.memory}))


def step_bars(report: ProfileReport) -> list[Bar]:
    """The median step times; the thin line goes on to the slow end."""
    ran = [(row, row.step) for row in report.variants if row.step]
    longest = max((step.high for _, step in ran), default=0.0) or 1.0
    return [
        Bar(
            row.variant,
            f"{seconds_text(step.median)}, {report.speedup(row) or 0:.2f}x",
            step.median / longest,
            bound=step.high / longest,
            verdict=_verdict(report, row, report.speedup(row), WORTHWHILE_SPEEDUP),
        )
        for row, step in ran
    ]


def memory_bars(report: ProfileReport) -> list[Bar]:
    """The memory that training needs under each variant."""
    known = [(row, row.memory) for row in report.variants if row.memory]
    most = max((memory.bytes for _, memory in known), default=0) or 1
    bars = []
    for row, memory in known:
        ratio = report.memory_ratio(row)
        verdict = _verdict(report, row, 1 / ratio if ratio else None, 1 / WORTHWHILE_MEMORY)
        bars.append(Bar(row.variant, memory.text, memory.bytes / most, verdict=verdict))
    return bars


def batch_bars(report: ProfileReport) -> list[Bar]:
    """The largest batch under each variant for which it was searched."""
    found = [(row.variant, row.largest_batch) for row in report.variants if row.largest_batch]
    most = max((limit.fits for _, limit in found), default=0) or 1
    return [Bar(name, f"{limit.fits:,}", limit.fits / most) for name, limit in found]


def noise_note(report: ProfileReport) -> str:
    """A sentence about differences of memory that may be noise; empty on a device."""
    sources = {row.memory.source for row in report.variants if row.memory}
    if sources <= {DEVICE_MEMORY}:
        return ""
    return f"Differences below {bytes_text(PROCESS_NOISE_BYTES)} of process memory may be noise."


def layer_bars(report: ProfileReport) -> list[Bar]:
    """The layers' shares of time under the main variant."""
    name = report.main.variant if report.main else ""
    costs = [(layer.path, layer.costs[name]) for layer in report.layers if name in layer.costs]
    costs.sort(key=lambda pair: pair[1].seconds, reverse=True)
    cores = has_tensor_cores(report.device)
    return [
        Bar(
            path,
            f"{cost.share:.0%}, {seconds_text(cost.seconds)} in {cost.dtype}",
            cost.share,
            verdict="PASS" if cores and cost.tensor_cores.at_speed else None,
        )
        for path, cost in costs[:_MOST_BARS]
    ]


def pipeline_bars(report: ProfileReport) -> list[Bar]:
    """Data, step, and both."""
    found = report.roofline.pipeline if report.roofline else None
    if found is None:
        return []
    parts = {"data alone": found.data_s, "step alone": found.step_s, "both": found.together_s}
    longest = max(parts.values())
    return [
        Bar(
            name,
            seconds_text(seconds),
            seconds / longest,
            verdict="FAIL" if found.input_bound and name == "both" else None,
        )
        for name, seconds in parts.items()
    ]


def _verdict(
    report: ProfileReport, row: StepProfile, gain: float | None, enough: float
) -> str | None:
    """The colour of a 16-bit variant: a worthwhile gain, a loss, or None."""
    if gain is None or row is report.baseline or not is_narrow(row.policy):
        return None
    if gain >= enough:
        return "PASS"
    return "FAIL" if gain < 1 / enough else None


def _throughput(report: SweepReport, rows: Sequence[StepProfile], salt: str) -> str:
    """Samples per second over the sizes: a line for each variant, a band over its rounds."""

    def of(row: StepProfile) -> tuple[float, float, float] | None:
        if row.step is None:
            return None
        low, mid, high = row.step.high, row.step.median, row.step.low
        return row.batch_size / low, row.batch_size / mid, row.batch_size / high

    return _figure(report, rows, of, "samples a second", salt)


def _memory(report: SweepReport, rows: Sequence[StepProfile], salt: str) -> str:
    """Memory of a step over the sizes; empty if it is unknown."""

    def of(row: StepProfile) -> tuple[float, float, float] | None:
        return None if row.memory is None else (row.memory.bytes / _MIB,) * 3

    return _figure(report, rows, of, "memory, MiB", salt) if any(map(of, rows)) else ""


def _figure(
    report: SweepReport,
    rows: Sequence[StepProfile],
    of: Callable[[StepProfile], tuple[float, float, float] | None],
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


def _style(rows: Sequence[StepProfile], row: StepProfile) -> tuple[str, str]:
    """A colour for each policy; lines of variants without XLA are dashed."""
    names = list(dict.fromkeys(_uncompiled(each) for each in rows))
    colour = COLOURS[names.index(_uncompiled(row)) % len(COLOURS)]
    return colour, "--" if row.xla is False else "-"


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

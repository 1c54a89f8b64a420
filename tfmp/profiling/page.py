"""The profile as one self-contained HTML file, in the look of all reports."""

from functools import cache
from typing import TYPE_CHECKING

from tfmp.machine import DEVICE_MEMORY, PROCESS_NOISE_BYTES, bytes_text, seconds_text
from tfmp.precision import has_tensor_cores, is_narrow
from tfmp.profiling.report import (
    WORTHWHILE_MEMORY,
    WORTHWHILE_SPEEDUP,
    ProfileReport,
    StepProfile,
)
from tfmp.profiling.tables import change_cells, layer_cells, step_cells
from tfmp.roofline import roof_picture
from tfmp.shared.html_page import Bar, page_environment

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

# More layers than this are no longer read at a glance.
_MOST_BARS = 15
_MOST_ROWS = 200


def to_html(report: ProfileReport) -> str:
    """A page with inline style and pictures, without scripts or external resources."""
    steps, layers = step_cells(report), layer_cells(report, _MOST_ROWS)
    return (
        _environment()
        .get_template("profile.html.j2")
        .render(
            report=report,
            steps=steps,
            changes=change_cells(report),
            layers=layers,
            step_bars=step_bars(report),
            memory_bars=memory_bars(report),
            layer_bars=layer_bars(report),
            memory_source=_memory_source(report),
            batch_bars=batch_bars(report),
            batch_bound=_batch_bound(report),
            noise=noise_note(report),
            more=max(0, len(report.layers) - _MOST_ROWS),
            limited_layers=limited_layers(report),
            roof=_roof(report),
            pipeline_bars=pipeline_bars(report),
        )
        + "\n"
    )


@cache
def _environment() -> "Environment":
    return page_environment("tfmp.profiling")


def step_bars(report: ProfileReport) -> list[Bar]:
    """The median step times; the thin line goes on to the slow end."""
    ran = [row for row in report.variants if row.step]
    longest = max((row.step.high for row in ran if row.step), default=0.0)
    return [
        Bar(
            row.variant,
            f"{seconds_text(row.step.median)}, {report.speedup(row) or 0:.2f}x",
            row.step.median / longest if longest else 0.0,
            bound=row.step.high / longest if longest else None,
            verdict=_verdict(report, row, report.speedup(row), WORTHWHILE_SPEEDUP),
        )
        for row in ran
        if row.step
    ]


def memory_bars(report: ProfileReport) -> list[Bar]:
    """The memory that training needs under each variant."""
    known = [row for row in report.variants if row.memory]
    most = max((row.memory.bytes for row in known if row.memory), default=0)
    return [
        Bar(
            row.variant,
            row.memory.text,
            row.memory.bytes / most if most else 0.0,
            verdict=_verdict(
                report, row, _inverse(report.memory_ratio(row)), 1 / WORTHWHILE_MEMORY
            ),
        )
        for row in known
        if row.memory
    ]


def _memory_source(report: ProfileReport) -> str:
    return " and ".join(sorted({row.memory.source for row in report.variants if row.memory}))


def batch_bars(report: ProfileReport) -> list[Bar]:
    """The largest batch under each variant for which it was searched."""
    found = [(row.variant, row.largest_batch) for row in report.variants if row.largest_batch]
    most = max((limit.fits for _, limit in found), default=0)
    return [
        Bar(name, f"{limit.fits:,}", limit.fits / most if most else 0.0) for name, limit in found
    ]


def _batch_bound(report: ProfileReport) -> str:
    return next((row.largest_batch.bound for row in report.variants if row.largest_batch), "")


def noise_note(report: ProfileReport) -> str:
    """A sentence about differences of memory that may be noise; empty on a device."""
    sources = {row.memory.source for row in report.variants if row.memory}
    if sources <= {DEVICE_MEMORY}:
        return ""
    return f"Differences below {bytes_text(PROCESS_NOISE_BYTES)} of process memory may be noise."


def layer_bars(report: ProfileReport) -> list[Bar]:
    """The layers' shares of time under the best 16-bit variant, or under the baseline."""
    row = report.best or report.baseline
    if row is None:
        return []
    costs = [
        (layer.path, layer.costs[row.variant])
        for layer in report.layers
        if row.variant in layer.costs
    ]
    costs.sort(key=lambda pair: pair[1].seconds, reverse=True)
    return [
        Bar(
            path,
            f"{cost.share:.0%}, {seconds_text(cost.seconds)} in {cost.dtype}",
            cost.share,
            verdict="PASS"
            if has_tensor_cores(report.device) and cost.tensor_cores.at_speed
            else None,
        )
        for path, cost in costs[:_MOST_BARS]
    ]


def limited_layers(report: ProfileReport) -> list[tuple[str, ...]]:
    """The layers under the roof, under the best 16-bit variant, or under the baseline."""
    row = report.best or report.baseline
    if row is None or report.roofline is None:
        return []
    return report.roofline.layer_cells(row.variant, _MOST_ROWS)


def _roof(report: ProfileReport) -> "Markup":
    from markupsafe import Markup

    row = report.best or report.baseline
    if row is None or report.roofline is None:
        return Markup("")
    return Markup(roof_picture(report.roofline, row.variant))


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


def _inverse(ratio: float | None) -> float | None:
    return 1 / ratio if ratio else None

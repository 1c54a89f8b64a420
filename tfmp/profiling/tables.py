"""The profile's tables, for the terminal and for the page: cells of text."""

from tfmp.machine import seconds_text
from tfmp.profiling.layers import LayerProfile
from tfmp.profiling.report import ProfileReport
from tfmp.roofline import Roofline
from tfmp.shared.wording import table


def step_cells(report: ProfileReport) -> list[tuple[str, ...]]:
    """The table of variants; its first row is the heading."""
    searched = any(row.largest_batch for row in report.variants)
    header = ["policy", "step", "spread", "speed", "samples/s", "memory", "compile", "loss"]
    rows = [tuple(header + (["largest batch"] if searched else []))]
    for row in report.variants:
        if row.step is None:
            rows.append((row.variant, f"did not run: {row.error}", *[""] * (len(rows[0]) - 2)))
            continue
        cells = [
            row.variant,
            seconds_text(row.step.median),
            f"{seconds_text(row.step.low)} to {seconds_text(row.step.high)}",
            f"{report.speedup(row) or 0:.2f}x",
            f"{row.samples_per_second or 0:,.0f}",
            row.memory.text if row.memory else "-",
            seconds_text(row.compile_s),
            "-" if row.loss is None else f"{row.loss:.4g}",
        ]
        rows.append(tuple(cells + ([str(row.largest_batch or "-")] if searched else [])))
    return rows


def change_cells(report: ProfileReport) -> list[tuple[str, ...]]:
    """The table of changes against an earlier profile; its first row is the heading."""
    changes = report.against.changes if report.against else ()
    rows = [(change.variant, change.what, change.verdict, change.text) for change in changes]
    return [("policy", "what", "verdict", "then and now"), *rows]


def layer_cells(report: ProfileReport, most: int | None = 20) -> list[tuple[str, ...]]:
    """The table of layers; its first row is the heading, then come the most expensive layers."""
    names = [row.variant for row in report.variants if row.step]
    rows = [("layer", "class", *names, "Tensor Cores")]
    shown = sorted(report.layers, key=lambda layer: -max(c.seconds for c in layer.costs.values()))
    for layer in shown[:most]:
        times = (
            f"{seconds_text(layer.costs[name].seconds)} ({layer.costs[name].share:.0%})"
            for name in names
        )
        rows.append((layer.path, layer.layer_class, *times, tensor_core_text(report, layer)))
    return rows


def roofline_lines(report: ProfileReport, roofline: Roofline) -> list[str]:
    """The roofline for the terminal: steps, layers of the fastest 16 bits, verdicts."""
    row = report.best or report.baseline
    layers = roofline.layer_cells(row.variant) if row else []
    parts = [f"roofline ({roofline.peaks.source}):", table(roofline.step_cells()), ""]
    if len(layers) > 1 and row:
        parts += [f"layers in {row.variant}:", table(layers), ""]
    return [*parts, *roofline.sentences()]


def tensor_core_text(report: ProfileReport, layer: LayerProfile) -> str:
    """The cell about a layer's Tensor Cores under the best 16-bit variant."""
    row = report.best or report.baseline
    if row is None or row.variant not in layer.costs:
        return "-"
    path = layer.costs[row.variant].tensor_cores
    if not path.eligible:
        return f"no: {path.reason}"
    used = row.kernels.layers.get(layer.path) if row.kernels else None
    text = "could" if used is None else f"used {used:.0%} of its time"
    return f"{text}; {path.reason}" if path.reason else text

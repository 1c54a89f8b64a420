"""The report of a training as one self-contained HTML file, and as Markdown."""

from collections import Counter

from tfmp.fit import figures
from tfmp.fit.report import TrainingReport
from tfmp.precision import LayerPrecision
from tfmp.shared.findings import Finding
from tfmp.shared.html_page import Bar, page_environment

# More rows than this are no longer read at a glance.
_MOST_VARIABLES = 15
_MOST_LAYERS = 200

_VERDICTS = {"problem": "FAIL", "warning": "INCONCLUSIVE", "note": "PASS", "ok": "PASS"}
_TITLES = {
    "PASS": "✓ no trouble found",
    "INCONCLUSIVE": "? worth a look",
    "FAIL": "✗ needs a change",
}


def to_html(report: TrainingReport) -> str:
    """A page with inline style and pictures, without scripts or external resources."""
    from markupsafe import Markup

    return (
        page_environment("tfmp.fit")
        .get_template("training.html.j2")
        .render(
            report=report,
            title=_TITLES[report.verdict],
            verdicts=_VERDICTS,
            findings=_worst_first(report),
            metrics=[(name, Markup(svg)) for name, svg in figures.metric_curves(report)],
            scale=Markup(figures.scale_and_skips(report)),
            gradients=Markup(figures.gradient_range(report)),
            underflow_bars=underflow_bars(report),
            offender_bars=offender_bars(report),
            dtypes=dtype_counts(report),
            layers=_layers(report)[:_MOST_LAYERS],
            more_layers=max(0, len(report.layers) - _MOST_LAYERS),
            evidence=_evidence(report),
        )
        + "\n"
    )


def to_markdown(report: TrainingReport) -> str:
    """The conclusion, the findings, the losses and the plan, as Markdown."""
    lines = [f"# Training of {report.model or 'a model'}: {_TITLES[report.verdict]}", ""]
    lines += [report.conclusion, ""]
    found = [f"- {finding.status}: {finding}" for finding in _worst_first(report)]
    found += [f"- step {event.step}: {event.text}" for event in report.events]
    if found:
        lines += ["## Findings", "", *found, ""]
    names = list(report.curves)
    if names:
        lines += ["## Epochs", "", _row(["epoch", *names]), _row(["---:"] * (len(names) + 1))]
        length = max(len(curve) for curve in report.curves.values())
        for place in range(length):
            cells = [f"{report.curves[name][place]:.5g}" for name in names]
            lines.append(_row([str(report.first_epoch + place + 1), *cells]))
        lines.append("")
    if report.layers:
        lines += ["## Plan", "", _row(["layer", "class", "computes in", "because"])]
        lines.append(_row(["---"] * 4))
        lines += [
            _row([row.path, row.layer_class, row.compute_dtype, row.reason])
            for row in _layers(report)
        ]
        lines.append("")
    lines += [f"- {name}: {value}" for name, value in _evidence(report).items()]
    return "\n".join(lines)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _worst_first(report: TrainingReport) -> list[Finding]:
    order = ("problem", "warning", "note", "ok")
    return sorted(report.findings, key=lambda finding: order.index(finding.status))


def underflow_bars(report: TrainingReport) -> list[Bar]:
    """The share of each variable's gradient that FP16 loses, the largest first."""
    if report.gradients is None or report.layer_dtype != "float16":
        return []
    lossy = [row for row in report.gradients.variables if row.underflow]
    rows = sorted(lossy, key=lambda row: row.underflow, reverse=True)
    return [
        Bar(
            row.variable,
            f"{row.underflow:.1%} lost, largest {row.largest:.2g}",
            row.underflow,
            verdict="FAIL" if row.underflow > 0.5 else None,
        )
        for row in rows[:_MOST_VARIABLES]
    ]


def offender_bars(report: TrainingReport) -> list[Bar]:
    """The variables whose gradients were not finite."""
    most = max((one.nonfinite_steps for one in report.offenders), default=0)
    return [
        Bar(
            one.variable,
            f"{one.nonfinite_steps} steps, first in {one.first_steps}",
            one.nonfinite_steps / most,
        )
        for one in report.offenders[:_MOST_VARIABLES]
    ]


def dtype_counts(report: TrainingReport) -> list[Bar]:
    """The number of layers by the dtype that they compute in."""
    counts = Counter(row.compute_dtype for row in report.layers)
    return [
        Bar(dtype, f"{count} layer{'s' if count > 1 else ''}", count / len(report.layers))
        for dtype, count in counts.most_common()
    ]


def _layers(report: TrainingReport) -> list[LayerPrecision]:
    """The rows of the plan, those against the base policy first."""
    return sorted(report.layers, key=lambda row: row.compute_dtype == report.layer_dtype)


def _evidence(report: TrainingReport) -> dict[str, str]:
    found = {"Policy": f"{report.policy}: {report.reason}", "Steps": f"{report.steps:,}"}
    if report.seconds_per_step is not None:
        found["Step"] = f"{report.seconds_per_step * 1e3:.3g} ms, median over epochs"
    if report.gradients is not None:
        found["Gradients"] = report.gradient_sizes
    return {**found, **report.environment}

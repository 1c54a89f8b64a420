"""Drift reports in MLflow, beside the training that made the model."""

import math
import re
from collections.abc import Iterator
from contextlib import nullcontext

from tfmp.converters.report import CandidateReport, DriftReport, render
from tfmp.converters.shared.errors import InputError

# Signs that MLflow may refuse in names; slashes make groups of metrics.
_NO_NAME = re.compile(r"[^\w./ -]", re.ASCII)

_FILES = {"drift.html": ".html", "drift.md": ".md", "drift.json": ".json"}


def log_to_mlflow(report: DriftReport) -> None:
    """Logs a report to MLflow's active run or, if there is none, to a run of its own.

    The run gets the tag `tfmp.verdict` (and one for each candidate), metrics such as
    "digits.onnx/probs/rel_l2", and the report as `tfmp/drift.html`, `.md` and `.json`.

    Args:
        report: of `validate` or `convert`.

    Raises:
        InputError: mlflow is not installed.
    """
    try:
        import mlflow
    except ImportError as error:
        raise InputError(
            f"log_to_mlflow needs the package mlflow ({error}). Install it: pip install mlflow."
        ) from error
    run = mlflow.start_run() if mlflow.active_run() is None else nullcontext()
    with run:
        mlflow.set_tag("tfmp.verdict", str(report.verdict))
        for candidate in report.candidates:
            mlflow.set_tag(f"tfmp.verdict.{_named(candidate.name)}", str(candidate.verdict))
            mlflow.log_metrics(dict(_metrics(candidate)))
        for name, suffix in _FILES.items():
            mlflow.log_text(render(report, suffix), f"tfmp/{name}")


def _metrics(candidate: CandidateReport) -> Iterator[tuple[str, float]]:
    """The numbers of a candidate that are known and finite, by name."""
    numbers: dict[tuple[str, ...], float | None] = {}
    for output in candidate.outputs:
        for name in ("rel_l2", "max_abs", "sqnr_db"):
            numbers[candidate.name, output.name, name] = getattr(output, name)
        if output.flips is not None:
            rate = output.flips / output.samples
            numbers[candidate.name, output.name, "flip_rate"] = rate
    for label in candidate.labels:
        for metric in label.metrics:
            numbers[candidate.name, label.output or "all", metric.name] = metric.candidate
    for parts, number in numbers.items():
        if number is not None and math.isfinite(number):
            yield _named(*parts), number


def _named(*parts: str) -> str:
    return "/".join(_NO_NAME.sub("_", part.replace("/", "_")) for part in parts)

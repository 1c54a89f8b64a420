"""FitOptions: the arguments of `MixedPrecision` about the course of a `fit`, checked once."""

from dataclasses import dataclass
from pathlib import Path

from tfmp.fit.report import TrainingReport
from tfmp.shared.arguments import check_choice, check_count
from tfmp.shared.report_files import check_is_path, check_report_path


@dataclass(frozen=True)
class FitOptions:
    """The arguments of `MixedPrecision` about the course of a `fit`; see there.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: an argument has a value that is not allowed.
    """

    log_dir: str | Path | None
    log_every: int | str
    on_nonfinite: str
    max_consecutive_skips: int
    report: str | Path | None

    def __post_init__(self) -> None:
        if self.log_every != "epoch":
            hint = "100 reads the counters every 100 steps; 'epoch' reads them once an epoch."
            check_count("log_every", self.log_every, hint=hint)
        reactions = ("report", "raise", "keep_float32")
        check_choice("on_nonfinite", self.on_nonfinite, reactions, "'report' is the default.")
        check_count("max_consecutive_skips", self.max_consecutive_skips, hint="50 is the default.")
        if self.log_dir is not None:
            check_is_path("log_dir", self.log_dir)
        if self.report is not None:
            check_report_path(self.report, TrainingReport.SUFFIXES)

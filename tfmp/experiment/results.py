"""Results of runs and arms; runs are kept in a folder, so that an experiment goes on."""

import hashlib
import json
import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tfmp.experiment.arms import Arm
from tfmp.experiment.differences import Difference, Finding
from tfmp.shared.atomic_file import replacing
from tfmp.shared.report_files import plain, read_json

_SUFFIX = ".run.json"


@dataclass(frozen=True)
class Run:
    """One arm with one seed.

    Attributes:
        arm: name of the arm.
        seed: seed of the initial weights, the order of batches, and dropout.
        metric: the task's metric on the test samples; None if the run failed, NaN if the
            predictions are not finite.
        losses: mean training loss of each epoch.
        steps: training steps, skipped ones included.
        skipped_steps: steps that were not applied, because their gradients were not finite.
        loss_scale: the loss scale at the end; None without loss scaling.
        seconds_per_step: median over epochs without the first one, which compiles.
        memory_bytes: rise of memory in training.
        memory_source: where that number comes from.
        stuck: share of the trained values that the last epoch did not move.
        vanished: share of gradients that FP16 rounds to zero: for float32, if they were FP16 and
            the loss was not scaled; for mixed_float16, in the last measured step. None where it was
            not measured.
        file_bytes: size of the file.
        latency_ms: median time of one call of the file for one sample.
        rel_l2: largest relative L2 error of an output of the file against its float32 original.
        verdict: the drift report's verdict on the file.
        reasons: the drift report's reasons for a file that does not pass.
        file: path of the trained model, or of the file.
        error: the reason why the run failed; empty if it did not.
    """

    arm: str
    seed: int
    metric: float | None = None
    losses: tuple[float, ...] = ()
    steps: int = 0
    skipped_steps: int = 0
    loss_scale: float | None = None
    seconds_per_step: float | None = None
    memory_bytes: int | None = None
    memory_source: str = ""
    stuck: float | None = None
    vanished: float | None = None
    file_bytes: int | None = None
    latency_ms: float | None = None
    rel_l2: float | None = None
    verdict: str = ""
    reasons: tuple[str, ...] = ()
    file: str = ""
    error: str = ""

    @property
    def usable(self) -> bool:
        """Whether the run ended with finite predictions."""
        return self.metric is not None and math.isfinite(self.metric)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "Run":
        """Reads what `plain` gave.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        values = {item.name: document[item.name] for item in fields(cls)}
        for name in ("metric", "rel_l2", "loss_scale"):
            values[name] = None if values[name] is None else float(values[name])
        values["losses"] = tuple(float(loss) for loss in values["losses"])
        values["reasons"] = tuple(str(reason) for reason in values["reasons"])
        return cls(**values)


@dataclass(frozen=True)
class ArmResult:
    """All runs of one arm.

    Attributes:
        arm: the arm.
        runs: one for each seed that was run.
        difference: its metric against float32's with the same seeds; None if no pair ended.
        slowdown: median over seeds of its step time as a multiple of float32's; None for files.
    """

    arm: Arm
    runs: tuple[Run, ...]
    difference: Difference | None
    slowdown: float | None

    @property
    def metric(self) -> float | None:
        """Mean of the metric over the seeds that ended with finite predictions."""
        found = [run.metric for run in self.runs if run.usable and run.metric is not None]
        return statistics.fmean(found) if found else None

    @property
    def failed(self) -> int:
        """Number of runs that ended with an error or with predictions that are not finite."""
        return sum(not run.usable for run in self.runs)

    @property
    def finding(self) -> Finding:
        """What the seeds say; an arm that fails with a seed is worse."""
        if self.failed:
            return Finding.WORSE
        return self.difference.finding if self.difference else Finding.OPEN

    @property
    def sound(self) -> bool:
        """Whether it is proven to be no worse than float32."""
        return self.finding in (Finding.AS_GOOD, Finding.BETTER)

    def median(self, value: Callable[[Run], float | None]) -> float | None:
        """The median of a measure over the seeds that have it."""
        found = [number for run in self.runs if (number := value(run)) is not None]
        return statistics.median(found) if found else None

    @property
    def verdict(self) -> str:
        """The worst verdict of the drift reports on its files; empty for a training."""
        verdicts = {run.verdict for run in self.runs if run.verdict}
        return next((v for v in ("FAIL", "INCONCLUSIVE", "PASS") if v in verdicts), "")


class Folder:
    """The results and models of an experiment on disk.

    A result counts if it was made under the same settings: the file's name has their hash.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        """Names a folder.

        Args:
            path: the folder; it need not exist.
            settings: everything that results depend on, as plain JSON types.
        """
        self.path = path
        text = json.dumps(settings, sort_keys=True)
        self._key = hashlib.sha256(text.encode()).hexdigest()[:12]

    def place(self, arm: str, seed: int, suffix: str) -> Path:
        """The file of a run."""
        return self.path / f"{arm}-seed{seed}-{self._key}{suffix}"

    def load(self, arm: str, seed: int) -> Run | None:
        """A result that was kept and did not fail; None where there is none."""
        try:
            document = read_json(self.place(arm, seed, _SUFFIX).read_text(encoding="utf-8"))
            run = Run.from_dict(document)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        same = (run.arm, run.seed) == (arm, seed) and not run.error
        return run if same and (not run.file or Path(run.file).exists()) else None

    def keep(self, run: Run) -> None:
        """Writes a result."""
        with replacing(self.place(run.arm, run.seed, _SUFFIX)) as new:
            new.write_text(json.dumps(plain(run), indent=1) + "\n", encoding="utf-8")

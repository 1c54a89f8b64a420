"""ExperimentReport: what every arm gave, what is proven, and which arm to ship."""

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tfmp.experiment.arms import BASE, Arm
from tfmp.experiment.differences import (
    CONFIDENCE,
    MOST_SEEDS,
    Finding,
    paired_difference,
)
from tfmp.experiment.results import ArmResult, Run
from tfmp.machine import bytes_text, seconds_text
from tfmp.shared.html_page import Bar, scaled
from tfmp.shared.report_files import JsonObject, plain
from tfmp.shared.reporting import Picture, Report, Section, Table, cell
from tfmp.shared.wording import joined

# A share of values that did not move is told if it is so many times float32's, and as large.
_STUCK_RATIO, _STUCK = 2.0, 0.2
# A share of gradients that vanish without loss scaling is told from here on.
_VANISHED = 0.01
# Of errors and reasons that are told of one arm.
_MOST_REMARKS = 4
# A metric that counts samples, as accuracy does, is so near to a whole number of them.
_WHOLE = 0.01
# Below it, six decimals would show nothing of a margin.
_SMALL_MARGIN = 1e-5
# Numbers below it are not normal in FP16.
_SMALLEST_NORMAL = 2.0**-14


@dataclass(frozen=True)
class ExperimentReport(Report):
    """The result of `tfmp.compare`; it prints as a conclusion and a table.

    Attributes:
        task: what was trained and measured, see `Lab.describe`.
        arms: names of the arms.
        seeds: number of seeds that were asked for.
        runs: all runs that were done.
        environment: versions by package.
    """

    SUFFIXES = (".html", ".json", ".md")
    SCHEMA = "tfmp.experiment/1"
    DERIVED = ("conclusion",)

    task: Mapping[str, Any]
    arms: tuple[str, ...]
    seeds: int
    runs: tuple[Run, ...]
    environment: Mapping[str, str]

    @cached_property
    def results(self) -> tuple[ArmResult, ...]:
        """One for each arm."""
        return tuple(self._result(Arm(name)) for name in self.arms)

    def _result(self, arm: Arm) -> ArmResult:
        runs = tuple(run for run in self.runs if run.arm == arm.name)
        base = {run.seed: run for run in self.runs if run.arm == BASE and run.usable}
        pairs = [(run, base[run.seed]) for run in runs if run.usable and run.seed in base]
        difference = None
        if pairs and arm.name != BASE:
            sign = self.task["sign"]
            difference = paired_difference(
                [sign * (one.metric or 0.0) for one, _ in pairs],
                [sign * (other.metric or 0.0) for _, other in pairs],
                self.task["margin"],
                self._resolution(base),
            )
        steps = [
            one.seconds_per_step / other.seconds_per_step
            for one, other in pairs
            if one.seconds_per_step and other.seconds_per_step
        ]
        slowdown = statistics.median(steps) if steps else None
        return ArmResult(arm, runs, difference, slowdown)

    def _resolution(self, base: Mapping[int, Run]) -> float:
        """What one test sample can change: exact for a share of samples, a scale for others."""
        samples = self.task["test_samples"]
        sizes = [abs(run.metric or 0.0) for run in base.values()]
        counts = [size * samples for size in sizes]
        if max(sizes) <= 1 and all(abs(count - round(count)) < _WHOLE for count in counts):
            return 1 / samples
        return statistics.fmean(sizes) / samples

    @property
    def base(self) -> ArmResult:
        """The result of float32."""
        return next(result for result in self.results if result.arm.name == BASE)

    @property
    def _rivals(self) -> list[ArmResult]:
        """The trainings beside float32."""
        return [each for each in self.results if not each.arm.file and each.arm.name != BASE]

    @property
    def shipped(self) -> ArmResult | None:
        """The file to ship: as good as float32, no FAIL, the smallest, then the fastest."""
        sound = [
            result
            for result in self.results
            if result.arm.file and result.sound and result.verdict != "FAIL"
        ]
        return min(
            sound,
            key=lambda result: (
                result.verdict != "PASS",
                result.median(lambda run: run.file_bytes) or 0,
                result.median(lambda run: run.latency_ms) or 0.0,
            ),
            default=None,
        )

    @property
    def conclusion(self) -> str:
        """The arm to ship and why, the trainings as good as float32, and the others' losses."""
        if self.base.metric is None:
            return f"Nothing can be concluded: {self._base_failed()}."
        losses = [
            f"{each.arm.name} {'loses' if each.difference else 'fails'}: {self.why(each)}."
            for each in self._rivals
            if each.finding is Finding.WORSE
        ]
        if self.base.failed:
            losses.insert(0, f"Note that {self._base_failed()}.")
        lines = [self._advice(), *self._as_good(), *losses, *self._open()]
        return "\n".join(line.rstrip(".") for line in lines)

    def _base_failed(self) -> str:
        runs = self.base.runs
        errors = {run.error for run in runs if run.error}
        why = "; ".join(sorted(errors)) or "its predictions or their metric are not finite"
        return f"float32 itself failed with {self.base.failed} of {len(runs)} seeds: {why}"

    def _advice(self) -> str:
        files = [result for result in self.results if result.arm.file]
        if not files:
            return "No file was made, so there is none to ship."
        best = self.shipped
        if best is None:
            return (
                "No file can be shipped yet: it has to be proven as good as float32 within "
                f"{self.number(self.task['margin'])}, and its drift report must not FAIL."
            )
        assert best.difference is not None
        bounds = sorted(
            self.task["sign"] * end for end in (best.difference.low, best.difference.high)
        )
        interval = f"difference {' to '.join(self.number(bound, True) for bound in bounds)}"
        relation = "better than" if best.finding is Finding.BETTER else "as good as"
        ship = (
            f"Ship {best.arm.name}: its {self.task['metric']} of {self.number(best.metric)} is "
            f"{relation} float32's {self.number(self.base.metric)} ({interval}), "
            f"and the file has {bytes_text(best.median(lambda run: run.file_bytes) or 0)}."
        )
        if best.verdict != "PASS":
            ship += " Its drift report is INCONCLUSIVE: validate it on more samples first."
        return ship

    def _as_good(self) -> list[str]:
        """The trainings that are no worse than float32, and the time that they take."""
        found = []
        for result in self._rivals:
            if result.sound:
                time = f", {result.slowdown:.2f} times the step time" if result.slowdown else ""
                found.append(f"{result.arm.name} ({self.number(result.metric)}{time})")
        return [f"Trained as well as float32: {joined(found)}."] if found else []

    def _open(self) -> list[str]:
        undecided = [
            (result.arm.name, result.difference)
            for result in self.results
            if result.difference and result.finding is Finding.OPEN
        ]
        if not undecided:
            return []
        names = joined([name for name, _ in undecided])
        verb = "is" if len(undecided) == 1 else "are"
        seeds = max(difference.seeds for _, difference in undecided)
        if seeds < 2:
            return [f"One seed proves nothing about {names}: run at least 3."]
        needs = [difference.seeds_needed for _, difference in undecided]
        known = [count for count in needs if count is not None]
        advice = f"More than {MOST_SEEDS:,} seeds would be needed to decide all of it."
        if len(known) == len(needs):
            advice = f"About {max(known)} seeds would probably decide."
        return [f"{seeds} seeds leave open whether {names} {verb} as good. {advice}"]

    def why(self, result: ArmResult) -> str:
        """The reasons why a training is worse, as far as the counters show them."""
        in_float16 = result.arm.training.startswith("float16")
        found = sorted({run.error for run in result.runs if run.error})
        diverged = [run for run in result.runs if not run.error and not run.usable]
        if diverged:
            share = f"{len(diverged)} of {len(result.runs)} seeds"
            found.append(f"predictions or their metric are not finite with {share}")
        if result.difference is not None and result.difference.finding is Finding.WORSE:
            found.append(
                f"{self.task['metric']} {self.number(result.metric)} against "
                f"{self.number(self.base.metric)}"
            )
        stuck, normal = (each.median(lambda run: run.stuck) for each in (result, self.base))
        if stuck is not None and stuck >= max(_STUCK, _STUCK_RATIO * (normal or 0.0)):
            cause = ", as their updates are less than half a spacing of FP16"
            found.append(
                f"{stuck:.0%} of its weights did not move in the last epoch (float32: "
                f"{normal or 0.0:.0%}){cause if in_float16 else ''}"
            )
        lost = result.median(lambda run: run.vanished)
        if result.arm.training != BASE and lost is not None and lost >= _VANISHED:
            found.append(f"{lost:.0%} of its gradients vanish in FP16 at its loss scale")
        if in_float16:
            found += self._limits_of_float16(result)
        return "; ".join(found) or "no counter shows why"

    def _limits_of_float16(self, result: ArmResult) -> list[str]:
        found = []
        epsilon = self.task.get("epsilon")
        if epsilon is not None and epsilon < _SMALLEST_NORMAL:
            there = float(np.float16(epsilon))
            found.append(
                "squares of small gradients vanish in float16, so the optimizer divides by its "
                f"epsilon of {epsilon:g} alone (in float16: {there:.2g})"
            )
        vanished = self.base.median(lambda run: run.vanished)
        if result.arm.training == "float16" and vanished is not None and vanished >= _VANISHED:
            found.append(f"{vanished:.0%} of the gradients vanish in FP16 without loss scaling")
        return found

    def _remarks(self) -> Iterator[str]:
        """Of each file, errors and the reasons of a drift report that did not pass, each once."""
        for result in self.results:
            texts = [text for run in result.runs for text in (run.error, *run.reasons) if text]
            if result.arm.file and texts:
                told = list(dict.fromkeys(texts))[:_MOST_REMARKS]
                yield f"{result.arm.name}: {'; '.join(told)}"

    def number(self, value: float | None, signed: bool = False) -> str:
        """A metric as people read it, to a tenth of the margin."""
        if value is None:
            return "-"
        sign = "+" if signed else ""
        if self.task["margin"] < _SMALL_MARGIN:
            return f"{value:{sign}.4g}"
        digits = max(0, len(f"{self.task['margin'] / 10:.10f}".rstrip("0").partition(".")[2]))
        return f"{value:{sign}.{min(digits, 6)}f}"

    def sections(self, on_page: bool = True) -> list[Section]:
        """As in `Report`: the arms, what was measured of files, and the task."""
        metric, order = self.task["metric"], "higher" if self.task["sign"] > 0 else "lower"
        return [
            Section("Conclusion", tables=(self.table(),), quiet=(self._legend(),)),
            Section(
                "The arms",
                facts=tuple((result.arm.name, result.arm.title) for result in self.results),
                pictures=(
                    Picture(f"{metric}, {order} is better; mean over seeds", self._metric_bars()),
                ),
            ),
            Section("Files", lines=tuple(self._remarks())),
            self._evidence(),
        ]

    def _metric_bars(self) -> tuple[Bar, ...]:
        """The metric of every arm that was run."""
        verdicts = {"as good": "PASS", "better": "PASS", "worse": "FAIL"}
        bars = []
        for result in self.results:
            value, judged = result.metric, verdicts.get(str(result.finding), "INCONCLUSIVE")
            text = "failed" if value is None else self.number(value)
            verdict = None if result.arm.name == BASE else judged
            bars.append(Bar(result.arm.name, text, abs(value or 0.0), verdict=verdict))
        return scaled(bars)

    def _evidence(self) -> Section:
        """The task and its runs; versions last."""
        task = self.task
        facts = {
            "Task": task.get("about", ""),
            "Samples": f"{task['train_samples']:,} to train, {task['test_samples']:,} to test",
            "Model": f"{task['weights']:,} weights, {task['optimizer']}",
            "Runs": f"{len(self.runs)}: {self.seeds} seeds, {task['epochs']} epochs, batches of "
            f"{task['batch_size']}",
            "Device": task["device"],
            "Keras backend": task["backend"],
            **self.environment,
        }
        shown = tuple((name, value) for name, value in facts.items() if value)
        return Section("Evidence", facts=shown)

    def _legend(self) -> str:
        """A paragraph that explains the columns of the table."""
        source = next((run.memory_source for run in self.runs if run.memory_source), "")
        return (
            "All numbers are means or medians over seeds. “difference” is against "
            f"{BASE} with the same seed: the same initial weights and the same batches in the same "
            f"order. “as good” means, with {CONFIDENCE:.0%} confidence, that the mean is worse by "
            f"at most {self.number(self.task['margin'])}, the margin declared before the run. "
            "“better” and “worse” mean a difference of more than the margin; “open”, that the "
            "seeds prove neither. An arm that fails with a seed counts as worse. “step” is the "
            f"time of a training step as a multiple of {BASE}'s. “skipped” counts the steps that "
            "loss scaling left out because gradients were not finite. “vanish” is the share of "
            f"gradients that FP16 rounds to zero at the loss scale (for {BASE}: without one). "
            f"“memory” is the rise of {source or 'memory'} in training. “size” is a file's, "
            "“latency” the time of one call with one sample. “drift” is the file's relative L2 "
            "error against its float32 model, and “verdict” the result of that comparison."
        )

    def table(self) -> Table:
        """All arms."""
        columns = ("step", "skipped", "vanish", "memory", "size", "latency", "drift", "verdict")
        return Table(
            ("arm", self.task["metric"], "difference", "finding", *columns),
            tuple(map(self._row, self.results)),
            words=("arm", "finding", "verdict"),
        )

    def _row(self, result: ArmResult) -> tuple[str, ...]:
        difference = result.difference
        finding = "-" if result.arm.name == BASE else str(result.finding)
        if result.failed:
            finding = f"failed {result.failed} of {len(result.runs)}"
        skipped = result.median(lambda run: run.skipped_steps if run.loss_scale else None)
        return (
            result.arm.name,
            self.number(result.metric),
            cell(
                lambda value: self.number(value * self.task["sign"], True),
                difference.mean if difference else None,
            ),
            finding,
            cell(lambda value: f"{value:.2f}x", result.slowdown),
            cell(lambda value: f"{value:.0f}", skipped),
            cell(lambda value: f"{value:.1%}", result.median(lambda run: run.vanished)),
            cell(bytes_text, result.median(lambda run: run.memory_bytes)),
            cell(bytes_text, result.median(lambda run: run.file_bytes)),
            cell(lambda value: seconds_text(value / 1e3), result.median(lambda r: r.latency_ms)),
            cell(lambda value: f"{value:.1e}", result.median(lambda run: run.rel_l2)),
            result.verdict or "-",
        )

    def to_dict(self) -> JsonObject:
        """The whole report, as plain JSON types."""
        best = self.shipped
        arms = [self._arm_json(result) for result in self.results]
        return {**super().to_dict(), "ship": best.arm.name if best else None, "arms": arms}

    def _arm_json(self, result: ArmResult) -> JsonObject:
        return {
            "arm": result.arm.name,
            "title": result.arm.title,
            "metric": result.metric,
            "finding": None if result.arm.name == BASE else str(result.finding),
            "difference": plain(result.difference),
            "slowdown": result.slowdown,
            "failed": result.failed,
            "verdict": result.verdict or None,
            "why": self.why(result) if result.finding is Finding.WORSE else None,
        }

    @property
    def heading(self) -> str:
        """Of the page."""
        return f"“{self.task['name']}” in {len(self.arms)} precisions"

    @property
    def signal(self) -> tuple[str, str]:
        """PASS if there is a file to ship."""
        best = self.shipped
        if best is None:
            return "INCONCLUSIVE", "? nothing to ship yet"
        return "PASS", f"✓ ship {best.arm.name}"

"""A profile against an earlier one of the same model: slower steps, more memory, lost paths.

The file of the earlier profile is the JSON document of a `ProfileReport`. Both sides are read from
that document, so that they are compared by the same rules.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tfmp.machine import Memory, Timing, bytes_text, devices, seconds_text
from tfmp.profiling.kernels import KernelUse
from tfmp.profiling.steps import StepProfile
from tfmp.shared.arguments import check_number
from tfmp.shared.backend import current_backend
from tfmp.shared.packages import processor_name
from tfmp.shared.report_files import JsonObject, read_json
from tfmp.shared.reporting import Section, Table
from tfmp.shared.wording import joined, listed

SCHEMA = "tfmp.profile/1"

# A change of this share is no news: the same code differs by so much from process to process.
TOLERANCE = 0.1

# The rate of wrong alarms that one comparison may have, over all its variants.
WRONG_ALARMS = 0.01

# The exact rank test takes minutes from more pairs on; by then the normal distribution is as good.
_MOST_PAIRS = 100 * 100

# More versions than this are not read one by one.
_MOST_NAMED = 3

_EXPECTED = "a file that `tfmp profile --save` wrote"
_AGAIN = "Make it again with `tfmp profile --save`."
_A_SHARE = "It is a share, such as 0.1."


@dataclass(frozen=True)
class Change:
    """One measured value of a variant, then and now.

    Attributes:
        variant: the policy, as in `StepProfile`.
        what: "step time", "memory", "Tensor Cores" or "run".
        verdict: "worse", "better", "same", or "unclear" where the noise is larger than the change.
        text: then and now, in words.
    """

    variant: str
    what: str
    verdict: str
    text: str

    def __str__(self) -> str:
        return f"{self.variant}, {self.what}: {self.text}"


@dataclass(frozen=True)
class BaselineComparison:
    """A profile against an earlier one.

    Attributes:
        baseline: path of the earlier profile.
        tolerance: share by which a step may take longer, or need more memory.
        changes: what was compared.
        caveats: differences between the two profiles that may explain a change, and values that
            could not be compared.
    """

    baseline: str
    tolerance: float
    changes: tuple[Change, ...]
    caveats: tuple[str, ...] = ()

    @property
    def regressions(self) -> tuple[Change, ...]:
        """The changes for the worse."""
        return tuple(change for change in self.changes if change.verdict == "worse")

    @property
    def only_slower(self) -> bool:
        """Whether steps became slower, and nothing else worse: the next run may tell otherwise."""
        return {change.what for change in self.regressions} == {"step time"}

    @property
    def answer(self) -> str:
        """One line that says whether anything became worse."""
        if lost := self.regressions:
            return f"Worse than {self.baseline}: {_named(lost)}"
        answer = f"Not worse than {self.baseline}, within {self.tolerance:.0%}"
        gained = [change for change in self.changes if change.verdict == "better"]
        if gained:
            answer += f"; better: {_named(gained)}. A new baseline would hold the gain"
        return answer

    def to_dict(self) -> JsonObject:
        """Plain JSON types."""
        return {**asdict(self), "worse": bool(self.regressions), "answer": self.answer}

    def section(self) -> Section:
        """The changes, for the reports of the new profile."""
        columns = ("policy", "what", "verdict", "then and now")
        rows = tuple((each.variant, each.what, each.verdict, each.text) for each in self.changes)
        return Section(
            "Against an earlier profile",
            tables=(Table(columns, rows, f"compared with {self.baseline}:", words=columns),),
            lines=tuple(f"note: {caveat}" for caveat in self.caveats),
            quiet=(
                "A step is slower if its rounds lie above the earlier ones by more than the "
                "tolerance, and noise cannot be the reason.",
            ),
        )


def _named(changes: Sequence[Change]) -> str:
    return listed([f"{change.what} of {change.variant}" for change in changes], _MOST_NAMED)


class Baseline:
    """A profile as its JSON document tells it.

    Attributes:
        name: of its file.
        rounds: number of timings of each variant.
    """

    def __init__(self, document: object, name: str) -> None:
        """Reads the parts that are compared.

        Args:
            document: the document of a `ProfileReport`.
            name: of its file, for errors.

        Raises:
            ValueError: it is another document, or a damaged one.
        """
        self.name = name
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            found = document.get("schema") if isinstance(document, dict) else document
            raise ValueError(
                f"A baseline expects {_EXPECTED} (schema {SCHEMA!r}); {name!r} has the schema "
                f"{str(found)[:60]!r}. {_AGAIN}"
            )
        try:
            self.model = str(document["model"])
            self.device = str(document["device"]["name"])
            self.backend = str(document["backend"])
            self.environment = {str(k): str(v) for k, v in document["environment"].items()}
            self._steps = {str(row["variant"]): _step(row) for row in document["variants"]}
            self._layers = {str(row["path"]): row["costs"] for row in document["layers"]}
            self._paths = {
                name: {path: _speed(costs[name]) for path, costs in self._layers.items()}
                for name in self._steps
                if all(name in costs for costs in self._layers.values())
            }
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ValueError(
                f"A baseline expects {_EXPECTED}; {name!r} is damaged: {_missing(error)}. {_AGAIN}"
            ) from error

    def check_place(self, device: str, backend: str, processor: str) -> None:
        """Accepts the place where the new profile is measured.

        Raises:
            ValueError: the earlier profile is of another device or backend: seconds of two devices
                say nothing about the code.
        """
        pairs = {
            "device": (self.device, device),
            "Keras backend": (self.backend, backend),
            "processor": (self.environment.get("processor", processor), processor),
        }
        for what, (then, now) in pairs.items():
            if then != now:
                raise ValueError(
                    f"A baseline expects the {what} of this run, {now!r}; {self.name!r} was made "
                    f"with {then!r}, whose times cannot be compared. Make a baseline here with "
                    "`tfmp profile --save`."
                )

    def comparison(self, now: "Baseline", tolerance: float = TOLERANCE) -> BaselineComparison:
        """The new profile against this one.

        A step is slower if its rounds lie above the earlier ones, lengthened by the tolerance, by
        the one-sided rank test of Mann and Whitney. Whatever the distribution of the noise,
        if it is the same on both sides, steps within the tolerance raise an alarm in
        `WRONG_ALARMS` of all comparisons or fewer, over all variants together.

        Args:
            now: the new profile.
            tolerance: share by which a step may take longer, or need more memory.

        Raises:
            ValueError: there is nothing to compare, or too few rounds.
        """
        check_number("tolerance", tolerance, least=0, hint=_A_SHARE)
        self.check_place(now.device, now.backend, now.environment.get("processor", ""))
        names = [name for name in self._steps if name in now._steps]
        if not any(self._steps[name].step for name in names):
            raise ValueError(
                f"A baseline expects one of the policies of this run, {joined(list(now._steps))}; "
                f"{self.name!r} has {joined(list(self._steps)) or 'no policies'}. Measure the same "
                "policies."
            )
        level = WRONG_ALARMS / len(names)
        changes: list[Change] = []
        caveats = self._caveats(now)
        for name in names:
            then, new = self._steps[name], now._steps[name]
            if then.step is None:
                caveats.append(f"{name} did not run for the baseline: {then.error}")
                continue
            if new.step is None:
                changes.append(Change(name, "run", "worse", f"did not run: {new.error}"))
                continue
            _check_same_work(self, then, now, new, level)
            changes.append(_time_change(name, then.step, new.step, level, tolerance))
            changes += _memory_changes(name, then, new, tolerance, caveats)
            changes += self._path_changes(name, now)
        return BaselineComparison(self.name, tolerance, tuple(changes), tuple(caveats))

    def _caveats(self, now: "Baseline") -> list[str]:
        found = []
        if self.model != now.model:
            found.append(f"the baseline is of a model named {self.model!r}, now {now.model!r}")
        versions = [
            f"{name} {then} (now {now.environment.get(name, 'none')})"
            for name, then in self.environment.items()
            if now.environment.get(name) != then
        ]
        if versions:
            found.append(f"the baseline was made with {listed(versions, _MOST_NAMED)}")
        for one, other, where in ((self, now, "now"), (now, self, "for the baseline")):
            left = [name for name in one._steps if name not in other._steps]
            if left:
                found.append(f"{joined(left)}: not compared, as not measured {where}")
        return found

    def _path_changes(self, name: str, now: "Baseline") -> list[Change]:
        """The layers that Tensor Cores could compute, or have computed, and now cannot, or not."""
        before, after = self._paths.get(name, {}), now._paths.get(name, {})
        lost = [path for path in before if path in after and after[path] < before[path]]
        used, uses = (each._steps[name].kernels for each in (self, now))
        if used and uses:
            lost += [path for path in used.layers if used.layers[path] > 0 == uses.layers.get(path)]
        lost = list(dict.fromkeys(lost))
        if not lost:
            return []
        reasons = (f"{path} ({now._reason(name, path)})" for path in lost)
        text = f"{len(lost)} layers lost their path: {listed(list(reasons), _MOST_NAMED)}"
        return [Change(name, "Tensor Cores", "worse", text.replace("1 layers", "1 layer"))]

    def _reason(self, name: str, path: str) -> str:
        found = self._layers.get(path, {}).get(name, {}).get("tensor_cores", {}).get("reason")
        return str(found or "its kernels no longer use them")


def _step(row: Mapping[str, Any]) -> StepProfile:
    """The parts of a variant's row that are compared."""
    seconds = row["step"]["seconds"] if row["step"] is not None else None
    if seconds is not None and not (seconds and all(map(_is_positive, seconds))):
        raise ValueError("the seconds of a step are not numbers above 0")
    memory, kernels = row["memory"], row["kernels"]
    if memory and not 0 <= memory["bytes"] < math.inf:
        raise ValueError("the bytes of a step are no number from 0 on")
    return StepProfile(
        str(row["variant"]),
        str(row["policy"]),
        Timing(tuple(map(float, seconds))) if seconds else None,
        int(row["batch_size"]),
        memory=Memory(int(memory["bytes"]), str(memory["source"])) if memory else None,
        kernels=KernelUse(**kernels) if kernels else None,
        error=str(row["error"]),
    )


def read_baseline(path: str | Path) -> Baseline:
    """The profile in a file that `tfmp profile --save`, or `ProfileReport.save`, wrote.

    Raises:
        ValueError: there is no such file, or it holds no whole profile.
    """
    try:
        document = read_json(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(
            f"A baseline expects {_EXPECTED}, received {str(path)!r}: {error.strerror}. {_AGAIN}"
        ) from error
    except ValueError as error:
        raise ValueError(
            f"A baseline expects {_EXPECTED}; {str(path)!r} is no whole JSON document ({error}). "
            f"{_AGAIN}"
        ) from error
    return Baseline(document, str(path))


def check_run(baseline: Baseline, policies: int, rounds: int, tolerance: float) -> None:
    """Refuses a run that could not be compared, before minutes of measuring.

    Args:
        baseline: the earlier profile.
        policies: number of policies that the run measures.
        rounds: number of timings of each.
        tolerance: as in `Baseline.comparison`.

    Raises:
        ValueError: it is on another device or backend, or has too few rounds, or the tolerance is
            no share.
    """

    check_number("tolerance", tolerance, least=0, hint=_A_SHARE)
    device = devices.visible_devices()[0].name
    baseline.check_place(device, current_backend().name, processor_name())
    _check_rounds(rounds, rounds_needed(WRONG_ALARMS / policies), "this run")


def rounds_needed(level: float) -> int:
    """Number of rounds on each side whose ranks can be as unlikely as that level."""
    return next(count for count in itertools.count(1) if math.comb(2 * count, count) * level >= 1)


def _check_rounds(rounds: int, needed: int, name: str) -> None:
    if rounds < needed:
        raise ValueError(
            f"A comparison expects {needed} rounds or more, as fewer cannot tell a change from "
            f"noise; {name!r} has {rounds}. Pass --rounds {needed}."
        )


def _check_same_work(
    then: Baseline, old: StepProfile, now: Baseline, new: StepProfile, level: float
) -> None:
    if old.batch_size != new.batch_size:
        raise ValueError(
            f"A baseline expects the batch size of this run, {new.batch_size}; {then.name!r} was "
            f"made with {old.batch_size}. Pass --batch-size {old.batch_size}, or make a new "
            "baseline with `tfmp profile --save`."
        )
    for profile, step in ((then, old.step), (now, new.step)):
        if step is not None:
            _check_rounds(len(step.seconds), rounds_needed(level), profile.name)


def _time_change(name: str, then: Timing, now: Timing, level: float, tolerance: float) -> Change:
    ratio, limit = now.median / then.median, 1 + tolerance
    text = f"{seconds_text(then.median)} then, {seconds_text(now.median)} now ({ratio:.2f} times)"
    if _longer(now, then, limit, level):
        return Change(name, "step time", "worse", text)
    if _longer(then, now, limit, level):
        return Change(name, "step time", "better", text)
    if ratio > limit:
        text += ", which may be noise: measure more rounds"
        return Change(name, "step time", "unclear", text)
    return Change(name, "step time", "same", text)


def _longer(one: Timing, other: Timing, limit: float, level: float) -> bool:
    """Whether `one` takes more than `limit` times as long as `other`."""
    from scipy.stats import mannwhitneyu

    lengthened = [limit * value for value in other.seconds]
    method = "exact" if len(one.seconds) * len(lengthened) <= _MOST_PAIRS else "asymptotic"
    found = mannwhitneyu(one.seconds, lengthened, alternative="greater", method=method)
    return bool(found.pvalue <= level)


def _memory_changes(
    name: str, old: StepProfile, new: StepProfile, tolerance: float, caveats: list[str]
) -> list[Change]:
    if old.memory is None or new.memory is None:
        return []
    text = f"{bytes_text(old.memory.bytes)} then, {bytes_text(new.memory.bytes)} now"
    if not old.memory.comparable(new.memory):
        caveats.append(f"{name}, memory: {text}, not compared: {new.memory.source}")
        return []
    ratio = new.memory.share_of(old.memory)
    verdict = "same"
    if ratio is not None and ratio > 1 + tolerance:
        verdict = "worse"
    elif ratio is not None and ratio < 1 / (1 + tolerance):
        verdict = "better"
    return [Change(name, "memory", verdict, text)]


def _speed(cost: Mapping[str, Any]) -> int:
    """2 for a layer that Tensor Cores compute at full speed, 1 at less, 0 for none."""
    path = cost["tensor_cores"]
    return (2 if not path["reason"] else 1) if path["eligible"] else 0


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _missing(error: Exception) -> str:
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error)

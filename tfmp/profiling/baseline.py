"""A profile against an earlier one of the same model: slower steps, more memory, lost paths.

The file of the earlier profile is the JSON document of a `ProfileReport`. Both sides are read from
that document, so that they are compared by the same rules.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tfmp.machine import Memory, Timing, bytes_text, devices, seconds_text
from tfmp.precision import TensorCorePath
from tfmp.profiling.kernels import KernelUse
from tfmp.profiling.steps import StepProfile
from tfmp.shared.arguments import check_number
from tfmp.shared.backend import current_backend
from tfmp.shared.packages import processor_name
from tfmp.shared.report_files import read_json
from tfmp.shared.reporting import Section, Table
from tfmp.shared.wording import counted, joined, listed

SCHEMA = "tfmp.profile/1"

# A change of this share is no news: the same code differs by so much from process to process.
TOLERANCE = 0.1

# The rate of wrong alarms that one comparison may have, over all its variants.
WRONG_ALARMS = 0.01

# The exact rank test takes minutes from more pairs on; by then the normal distribution is as good.
_MOST_PAIRS = 100 * 100

# More versions than this are not read one by one.
_MOST_NAMED = 3

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

    DERIVED: ClassVar[tuple[str, ...]] = ("worse", "answer")

    baseline: str
    tolerance: float
    changes: tuple[Change, ...]
    caveats: tuple[str, ...] = ()

    @property
    def regressions(self) -> tuple[Change, ...]:
        """The changes for the worse."""
        return tuple(change for change in self.changes if change.verdict == "worse")

    @property
    def worse(self) -> bool:
        """Whether anything changed for the worse."""
        return bool(self.regressions)

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


@dataclass(frozen=True)
class Baseline:
    """What is compared of a profile.

    Attributes:
        name: of its file.
        model, device, backend: their names.
        environment: versions by package, and the processor.
        steps: by variant.
        paths: by layer and variant, the way to Tensor Cores.
    """

    name: str
    model: str
    device: str
    backend: str
    environment: Mapping[str, str]
    steps: Mapping[str, StepProfile]
    paths: Mapping[str, Mapping[str, TensorCorePath]]

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


def baseline_of(document: Any, name: str) -> Baseline:
    """What is compared of the JSON document of a `ProfileReport`.

    Args:
        document: the document.
        name: of its file, for errors.

    Raises:
        ValueError: it is another document, or a damaged one.
    """
    schema = document.get("schema") if isinstance(document, dict) else document
    if schema != SCHEMA:
        raise _refused(f"(schema {SCHEMA!r}); {name!r} has the schema {str(schema)[:60]!r}")
    try:
        return Baseline(
            name,
            str(document["model"]),
            str(document["device"]["name"]),
            str(document["backend"]),
            {str(package): str(version) for package, version in document["environment"].items()},
            {str(row["variant"]): _step(row) for row in document["variants"]},
            {
                str(layer["path"]): {
                    variant: TensorCorePath(**cost["tensor_cores"])
                    for variant, cost in layer["costs"].items()
                }
                for layer in document["layers"]
            },
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise _refused(f"; {name!r} is damaged: {why}") from error


def read_baseline(path: str | Path) -> Baseline:
    """The profile in a file that `tfmp profile --save`, or `ProfileReport.save`, wrote.

    Raises:
        ValueError: there is no such file, or it holds no whole profile.
    """
    try:
        document = read_json(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise _refused(f", received {str(path)!r}: {error.strerror}") from error
    except ValueError as error:
        raise _refused(f"; {str(path)!r} is no whole JSON document ({error})") from error
    return baseline_of(document, str(path))


def _refused(why: str) -> ValueError:
    again = "Make it again with `tfmp profile --save`."
    return ValueError(f"A baseline expects a file that `tfmp profile --save` wrote{why}. {again}")


def _step(row: Mapping[str, Any]) -> StepProfile:
    """The parts of a variant's row that are compared."""
    seconds = None if row["step"] is None else tuple(map(float, row["step"]["seconds"]))
    if seconds is not None and not (seconds and all(0 < each < math.inf for each in seconds)):
        raise ValueError("the seconds of a step are not numbers above 0")
    memory, kernels = row["memory"], row["kernels"]
    if memory and not 0 <= memory["bytes"] < math.inf:
        raise ValueError("the bytes of a step are no number from 0 on")
    return StepProfile(
        str(row["variant"]),
        str(row["policy"]),
        Timing(seconds) if seconds else None,
        int(row["batch_size"]),
        memory=Memory(int(memory["bytes"]), str(memory["source"])) if memory else None,
        kernels=KernelUse(**kernels) if kernels else None,
        error=str(row["error"]),
    )


def check_run(baseline: Baseline, policies: int, rounds: int, tolerance: float) -> None:
    """Refuses a run that could not be compared, before minutes of measuring.

    Args:
        baseline: the earlier profile.
        policies: number of policies that the run measures.
        rounds: number of timings of each.
        tolerance: as in `compare`.

    Raises:
        ValueError: it is on another device or backend, or has too few rounds, or the tolerance is
            no share.
    """
    check_number("tolerance", tolerance, least=0, hint=_A_SHARE)
    device = devices.visible_devices()[0].name
    baseline.check_place(device, current_backend().name, processor_name())
    _check_rounds(rounds, WRONG_ALARMS / policies, "this run")


def compare(then: Baseline, now: Baseline, tolerance: float = TOLERANCE) -> BaselineComparison:
    """A new profile against an earlier one.

    A step is slower if its rounds lie above the earlier ones, lengthened by the tolerance, by the
    one-sided rank test of Mann and Whitney. Whatever the distribution of the noise, if it is the
    same on both sides, steps within the tolerance raise an alarm in `WRONG_ALARMS` of all
    comparisons or fewer, over all variants together.

    Args:
        then: the earlier profile.
        now: the new profile.
        tolerance: share by which a step may take longer, or need more memory.

    Raises:
        ValueError: there is nothing to compare, or too few rounds.
    """
    check_number("tolerance", tolerance, least=0, hint=_A_SHARE)
    then.check_place(now.device, now.backend, now.environment.get("processor", ""))
    names = [name for name in then.steps if name in now.steps]
    if not any(then.steps[name].step for name in names):
        raise ValueError(
            f"A baseline expects one of the policies of this run, {joined(list(now.steps))}; "
            f"{then.name!r} has {joined(list(then.steps)) or 'no policies'}. Measure the same "
            "policies."
        )
    changes: list[Change] = []
    caveats = _caveats(then, now)
    for name in names:
        old, new = then.steps[name], now.steps[name]
        if old.step is None:
            caveats.append(f"{name} did not run for the baseline: {old.error}")
            continue
        if new.step is None:
            changes.append(Change(name, "run", "worse", f"did not run: {new.error}"))
            continue
        if old.batch_size != new.batch_size:
            raise ValueError(
                f"A baseline expects the batch size of this run, {new.batch_size}; {then.name!r} "
                f"was made with {old.batch_size}. Pass --batch-size {old.batch_size}, or make a "
                "new baseline with `tfmp profile --save`."
            )
        level = WRONG_ALARMS / len(names)
        for profile, step in ((then, old.step), (now, new.step)):
            _check_rounds(len(step.seconds), level, profile.name)
        changes.append(_time_change(name, old.step, new.step, level, tolerance))
        changes += _memory_changes(name, old, new, tolerance, caveats)
        changes += _path_changes(name, then, now)
    return BaselineComparison(then.name, tolerance, tuple(changes), tuple(caveats))


def _caveats(then: Baseline, now: Baseline) -> list[str]:
    found = []
    if then.model != now.model:
        found.append(f"the baseline is of a model named {then.model!r}, now {now.model!r}")
    versions = [
        f"{name} {version} (now {now.environment.get(name, 'none')})"
        for name, version in then.environment.items()
        if now.environment.get(name) != version
    ]
    if versions:
        found.append(f"the baseline was made with {listed(versions, _MOST_NAMED)}")
    for one, other, where in ((then, now, "now"), (now, then, "for the baseline")):
        left = [name for name in one.steps if name not in other.steps]
        if left:
            found.append(f"{joined(left)}: not compared, as not measured {where}")
    return found


def _check_rounds(rounds: int, level: float, name: str) -> None:
    """Refuses rounds whose ranks cannot be as unlikely as the level, with as many on both sides."""
    needed = next(n for n in itertools.count(1) if math.comb(2 * n, n) * level >= 1)
    if rounds < needed:
        raise ValueError(
            f"A comparison expects {needed} rounds or more, as fewer cannot tell a change from "
            f"noise; {name!r} has {rounds}. Pass --rounds {needed}."
        )


def _time_change(name: str, then: Timing, now: Timing, level: float, tolerance: float) -> Change:
    ratio, limit = now.median / then.median, 1 + tolerance
    text = f"{seconds_text(then.median)} then, {seconds_text(now.median)} now ({ratio:.2f} times)"
    verdict = "same"
    if _longer(now, then, limit, level):
        verdict = "worse"
    elif _longer(then, now, limit, level):
        verdict = "better"
    elif ratio > limit:
        verdict, text = "unclear", f"{text}, which may be noise: measure more rounds"
    return Change(name, "step time", verdict, text)


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
    ratio = new.memory.share_of(old.memory) or 1.0
    verdict = "worse" if ratio > 1 + tolerance else "same"
    return [Change(name, "memory", "better" if ratio < 1 / (1 + tolerance) else verdict, text)]


def _path_changes(name: str, then: Baseline, now: Baseline) -> list[Change]:
    """The layers that Tensor Cores could compute, or have computed, and now cannot, or not."""
    lost = {}
    for path, ways in then.paths.items():
        before, after = ways.get(name), now.paths.get(path, {}).get(name)
        if before and after and _speed(after) < _speed(before):
            lost[path] = after.reason
    used, uses = then.steps[name].kernels, now.steps[name].kernels
    for path, share in used.layers.items() if used and uses else ():
        if uses and share > 0 == uses.layers.get(path):
            lost.setdefault(path, "its kernels no longer use them")
    if not lost:
        return []
    reasons = [f"{path} ({reason})" for path, reason in lost.items()]
    text = f"{counted(len(lost), 'layer')} lost their path: {listed(reasons, _MOST_NAMED)}"
    return [Change(name, "Tensor Cores", "worse", text)]


def _speed(path: TensorCorePath) -> int:
    """2 for a layer that Tensor Cores compute at full speed, 1 at less, 0 for none."""
    return path.eligible + path.at_speed

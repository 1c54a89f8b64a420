"""A profile against an earlier one of the same model: slower steps, more memory, lost paths.

Both sides are JSON documents of a `ProfileReport`, so that they are compared by the same rules.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tfmp.machine import Memory, Timing, bytes_text, devices, seconds_text
from tfmp.precision import TensorCorePath
from tfmp.shared.arguments import check_number
from tfmp.shared.backend import current_backend
from tfmp.shared.packages import processor_name
from tfmp.shared.report_files import JsonObject, read_json
from tfmp.shared.reporting import Section, Table
from tfmp.shared.wording import counted, joined, listed

SCHEMA = "tfmp.profile/2"
_SCHEMAS = ("tfmp.profile/1", SCHEMA)

# A change of this share is no news: the same code differs by so much from process to process.
TOLERANCE = 0.1

# More versions than this are not read one by one.
_MOST_NAMED = 3


@dataclass(frozen=True)
class Change:
    """One measured value of a variant, then and now.

    Attributes:
        variant: the policy, as in `StepProfile`.
        what: "step time", "memory", "Tensor Cores" or "run".
        verdict: "worse", "same", or "unclear" where the noise is larger than the change.
        text: then and now, in words.
    """

    variant: str
    what: str
    verdict: str
    text: str


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
        lost = [f"{change.what} of {change.variant}" for change in self.regressions]
        if lost:
            return f"Worse than {self.baseline}: {listed(lost, _MOST_NAMED)}"
        return f"Not worse than {self.baseline}, within {self.tolerance:.0%}"

    def section(self) -> Section:
        """The changes, for the reports of the new profile."""
        columns = ("policy", "what", "verdict", "then and now")
        rows = tuple((each.variant, each.what, each.verdict, each.text) for each in self.changes)
        return Section(
            "Against an earlier profile",
            tables=(Table(columns, rows, f"compared with {self.baseline}:", words=columns),),
            lines=tuple(f"note: {caveat}" for caveat in self.caveats),
            quiet=(
                "A step is slower if even its fastest rounds take longer than the earlier median, "
                "by more than the tolerance.",
            ),
        )


def read_baseline(path: str | Path) -> JsonObject:
    """The profile in a file that `tfmp profile --save`, or `ProfileReport.save`, wrote.

    Returns:
        The document, with its path as "path".

    Raises:
        ValueError: there is no such file, it holds no whole profile, or nothing ran in it.
    """
    try:
        document = read_json(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise _refused(f", received {str(path)!r}: {error.strerror}") from error
    except ValueError as error:
        raise _refused(f"; {str(path)!r} is no whole JSON document ({error})") from error
    schema = document.get("schema") if isinstance(document, dict) else document
    if schema not in _SCHEMAS:
        raise _refused(f" (schema {SCHEMA!r}); {str(path)!r} has the schema {str(schema)[:60]!r}")
    try:
        document["path"] = str(path)
        compare(document, document)  # all that a comparison needs is there
    except (LookupError, TypeError, AttributeError, OverflowError) as error:
        why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise _refused(f"; {str(path)!r} is damaged: {why}") from error
    return document


def _refused(why: str) -> ValueError:
    again = "Make it again with `tfmp profile --save`."
    return ValueError(f"A baseline expects a file that `tfmp profile --save` wrote{why}. {again}")


def check_run(baseline: JsonObject, tolerance: float) -> None:
    """Refuses a run that could not be compared, before minutes of measuring.

    Args:
        baseline: the earlier profile.
        tolerance: as in `compare`.

    Raises:
        ValueError: it is on another device or backend, or the tolerance is no share.
    """
    here = {
        "device": {"name": devices.visible_devices()[0].name},
        "backend": current_backend().name,
        "environment": {"processor": processor_name()},
    }
    _check(baseline, here, tolerance)


def _check(then: JsonObject, now: JsonObject, tolerance: float) -> None:
    check_number("tolerance", tolerance, least=0, hint="It is a share, such as 0.1.")
    again = "Its times cannot be compared: make a baseline here with `tfmp profile --save`."
    for what, before, after in (
        ("device", then["device"]["name"], now["device"]["name"]),
        ("Keras backend", then["backend"], now["backend"]),
        ("processor", *(side["environment"].get("processor") for side in (then, now))),
    ):
        if None not in (before, after):
            _check_same(what, before, after, then["path"], again)


def _check_same(what: str, before: object, after: object, path: str, remedy: str) -> None:
    if before != after:
        raise ValueError(
            f"A baseline expects the {what} of this run, {after!r}; {path!r} was made with "
            f"{before!r}. {remedy}"
        )


def compare(then: JsonObject, now: JsonObject, tolerance: float = TOLERANCE) -> BaselineComparison:
    """A new profile against an earlier one.

    Other work of a machine only adds time. So a step is slower if even its fastest tenth of rounds
    lies above the earlier median, lengthened by the tolerance.

    Args:
        then: the earlier profile, as `read_baseline` gives it.
        now: the new profile.
        tolerance: share by which a step may take longer, or need more memory.

    Raises:
        ValueError: there is nothing to compare.
    """
    _check(then, now, tolerance)
    before, after = ({row["variant"]: row for row in side["variants"]} for side in (then, now))
    names = [name for name in before if name in after]
    if not any(before[name]["step"] for name in names):
        raise ValueError(
            f"A baseline expects one of the policies of this run, {joined(list(after))}; "
            f"{then['path']!r} has {joined(list(before)) or 'no policies'}. Measure the same "
            "policies."
        )
    changes: list[Change] = []
    caveats = _caveats(then, now)
    for left, where in ((before.keys() - after, "now"), (after.keys() - before, "in the baseline")):
        caveats += [f"{name}: not compared, as not measured {where}" for name in sorted(left)]
    for name in names:
        old, new = before[name], after[name]
        if old["step"] is None:
            caveats.append(f"{name} did not run for the baseline: {old['error']}")
        elif new["step"] is None:
            changes.append(Change(name, "run", "worse", f"did not run: {new['error']}"))
        else:
            sizes = old["batch_size"], new["batch_size"]
            remedy = f"Pass --batch-size {sizes[0]}, or make a baseline with `tfmp profile --save`."
            _check_same("batch size", *sizes, then["path"], remedy)
            changes.append(_time_change(name, old["step"], new["step"], 1 + tolerance))
            changes += _memory_changes(name, old, new, 1 + tolerance, caveats)
            changes += _path_changes(name, then, now)
    return BaselineComparison(then["path"], tolerance, tuple(changes), tuple(caveats))


def _caveats(then: JsonObject, now: JsonObject) -> list[str]:
    found = []
    if then["model"] != now["model"]:
        found.append(f"the baseline is of a model named {then['model']!r}, now {now['model']!r}")
    versions = [
        f"{name} {version} (now {now['environment'].get(name, 'none')})"
        for name, version in then["environment"].items()
        if now["environment"].get(name) != version
    ]
    if versions:
        found.append(f"the baseline was made with {listed(versions, _MOST_NAMED)}")
    return found


def _time_change(name: str, old: JsonObject, new: JsonObject, limit: float) -> Change:
    then, now = _timing(old["seconds"]), _timing(new["seconds"])
    ratio = now.median / then.median
    text = f"{seconds_text(then.median)} then, {seconds_text(now.median)} now ({ratio:.2f} times)"
    verdict = "same"
    if now.low > limit * then.median:
        verdict = "worse"
    elif ratio > limit:
        verdict, text = "unclear", f"{text}, which may be noise: measure more rounds"
    return Change(name, "step time", verdict, text)


def _timing(seconds: Sequence[float]) -> Timing:
    if not (seconds and all(0 < each < math.inf for each in seconds)):
        raise TypeError("the seconds of a step are not numbers above 0")
    return Timing(tuple(map(float, seconds)))


def _memory_changes(
    name: str, old: JsonObject, new: JsonObject, limit: float, caveats: list[str]
) -> list[Change]:
    if old["memory"] is None or new["memory"] is None:
        return []
    then, now = Memory(**old["memory"]), Memory(**new["memory"])
    text = f"{bytes_text(then.bytes)} then, {bytes_text(now.bytes)} now"
    if not then.comparable(now):
        caveats.append(f"{name}, memory: {text}, not compared: {now.source}")
        return []
    verdict = "worse" if (now.share_of(then) or 1.0) > limit else "same"
    return [Change(name, "memory", verdict, text)]


def _path_changes(name: str, then: JsonObject, now: JsonObject) -> list[Change]:
    """The layers that Tensor Cores could compute, or at full speed, and now cannot."""
    before, after = _paths(name, then), _paths(name, now)
    lost = [
        f"{path} ({after[path].reason})"
        for path, way in before.items()
        if path in after and _speed(after[path]) < _speed(way)
    ]
    if not lost:
        return []
    text = f"{counted(len(lost), 'layer')} lost their path: {listed(lost, _MOST_NAMED)}"
    return [Change(name, "Tensor Cores", "worse", text)]


def _paths(name: str, side: JsonObject) -> dict[str, TensorCorePath]:
    costs = {row["path"]: row["costs"][name] for row in side["layers"]}
    return {path: TensorCorePath(**cost["tensor_cores"]) for path, cost in costs.items()}


def _speed(way: TensorCorePath) -> int:
    """2 for a layer that Tensor Cores compute at full speed, 1 at less, 0 for none."""
    return way.eligible + (way.eligible and not way.reason)

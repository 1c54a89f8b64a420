"""Other runtimes that a candidate may meet: whether a verdict on one holds for them, too."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tfmp.converters.drift import OutputDrift
from tfmp.converters.drift.verdict.check import Check, Verdict, doubt

# Judges outputs by the budget at hand.
Judged = Callable[[Sequence[OutputDrift]], Sequence[Check]]


@dataclass(frozen=True)
class Elsewhere:
    """The drift on another runtime than the one that a candidate was compared on.

    Attributes:
        profile: name of the runtime, as `--emulate` takes it.
        runtime: the runtime in words.
        outputs: drift on some of the samples; empty where it computes as the candidate's runner.
        place: the node that the drift begins in, in words; "" where it was not looked for.
        why: the arithmetic of the runtime that makes the difference there, in words.
        fix: a way to run the file there all the same, as a sentence without a full stop.
        error: reason why it could not be run; None if it was.
    """

    profile: str
    runtime: str
    outputs: tuple[OutputDrift, ...] = ()
    place: str = ""
    why: str = ""
    fix: str = ""
    error: str | None = None


def failures(found: Elsewhere, judged: Judged) -> list[Check]:
    """The checks that a candidate fails on another runtime."""
    if not found.outputs:
        return []
    return [check for check in judged(found.outputs) if check.verdict is Verdict.FAIL]


def elsewhere_checks(elsewhere: Sequence[Elsewhere], judged: Judged) -> list[Check]:
    """A doubt for each runtime that a candidate fails on."""
    checks = []
    for found in elsewhere:
        failed = failures(found, judged)
        if failed:
            checks.append(doubt("runtime", failed[0].output, _text(found, failed[0])))
    return checks


def _text(found: Elsewhere, failed: Check) -> str:
    samples = max(output.samples for output in found.outputs)
    text = (
        f"the verdict depends on the runtime: on {found.runtime}, {failed.text} ({samples:,} "
        "samples)"
    )
    if found.place:
        text += f". This begins in {found.place}"
        text += f", because {found.why}" if found.why else ""
    return f"{text}. {found.fix}" if found.fix else text

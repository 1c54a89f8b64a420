"""`tfmp-convert plan`: the samples that verdicts need, as tables or one JSON document."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from tfmp.converters.commands.options import Limits, Shown
from tfmp.converters.commands.session import print_answer
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.options import check_count
from tfmp.shared.report_files import JsonObject
from tfmp.shared.reporting import Section, Table, print_section
from tfmp.shared.wording import counted

if TYPE_CHECKING:
    from rich.console import Console

    from tfmp.converters.drift import DriftBudget
    from tfmp.converters.drift.verdict import Outlook


def outlooks(limits: Limits) -> "list[Outlook]":
    """What the limits that are asked for need; the default flip rate if none is.

    Raises:
        InputError: a limit that is no share, or a number of samples below 1.
    """
    from tfmp.converters.drift import DriftBudget
    from tfmp.converters.drift.verdict import accuracy_outlook, flip_outlook

    budget = DriftBudget.parse(f"confidence={limits.confidence}")
    flip_rate, samples = limits.flip_rate, limits.samples
    if samples is not None:
        check_count("samples", samples)
    if flip_rate is None and limits.accuracy_drop is None:
        flip_rate = str(budget.flip_rate)
    found = []
    if flip_rate is not None:
        found.append(flip_outlook(budget, _share("flip_rate", flip_rate, budget), samples))
    if limits.accuracy_drop is not None:
        limit = _share("accuracy_drop", limits.accuracy_drop, budget)
        found.append(accuracy_outlook(budget, limit, samples))
    return found


def _share(name: str, text: str, budget: "DriftBudget") -> float:
    limit: float | None = getattr(budget.parse(f"{name}={text}"), name)
    if limit is None or not 0 < limit < 1:
        raise InputError(
            f"{name}: expected a share of more than 0 and less than 1, such as 0.01 for 1 %; "
            f"received {text!r}."
        )
    return limit


def print_outlooks(found: "Sequence[Outlook]", samples: int | None, shown: Shown) -> None:
    """Prints the outlooks: the answers, and below them tables."""

    def document() -> JsonObject:
        return {"samples": samples} | {each.limit: asdict(each) for each in found}

    def brief(console: "Console") -> None:
        for each in found:
            console.print(_told(each, samples), soft_wrap=True)

    def whole(console: "Console") -> None:
        for each in found:
            limit = f"{each.limit} of at most {each.value:.4g} ({each.confidence:.4g} confidence)"
            print_section(Section(limit, lines=(_told(each, samples),)), console)
            print_section(Section("", tables=(_counts(each),)), console, titled=False)
            console.print()
        console.print("Samples with the same inputs count once.", style="dim")
        if shown.verbose:
            more = "A FAIL takes a little more where a report makes several statements."
            console.print(more, style="dim")

    print_answer(shown, document, brief, whole)


def _counts(outlook: "Outlook") -> Table:
    flips = outlook.limit == "flip_rate"
    return Table(
        ("flips" if flips else "lost, gained", "PASS from", "FAIL up to"),
        tuple(
            (
                f"{seen.lost}" if flips else f"{seen.lost}, {seen.gained}",
                _samples(seen.passes_from),
                _samples(seen.fails_up_to),
            )
            for seen in outlook.seen
        ),
        f"Samples for a verdict, by the number of {'flips' if flips else 'answers'} seen",
    )


def _samples(count: int | None) -> str:
    return "never" if count is None else f"{count:,}"


def _told(outlook: "Outlook", samples: int | None) -> str:
    """The answer in a sentence."""
    what = "flip" if outlook.limit == "flip_rate" else "lost answer"
    number = partial(counted, noun=what)
    passes, fails, least = outlook.passes_with, outlook.fails_with, outlook.seen[0].passes_from
    if samples is None:
        if least is None:
            return "100,000,000 samples are too few for a PASS. Declare a larger limit."
        return f"A PASS needs at least {least:,} samples, and more with each {what} among them."
    told = "no number is a PASS" if passes is None else f"a PASS has at most {number(passes)}"
    told += " and none is a FAIL" if fails is None else f" and a FAIL at least {number(fails)}"
    gained = "" if outlook.limit == "flip_rate" else ", if none is gained"
    return f"With {samples:,} samples, {told}{gained}; any other number is INCONCLUSIVE."

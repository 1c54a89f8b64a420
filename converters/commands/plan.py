"""`tfmp-convert plan`: the samples that verdicts need, as tables or one JSON document."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tfmp.converters.commands.options import Shown
from tfmp.converters.commands.session import readers_may_leave
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.options import check_count
from tfmp.shared.reporting import Section, Table

if TYPE_CHECKING:
    from tfmp.converters.drift import DriftBudget
    from tfmp.converters.drift.verdict import Outlook


def outlooks(
    flip_rate: str | None, accuracy_drop: str | None, confidence: str, samples: int | None
) -> "list[Outlook]":
    """What the limits that are asked for need; the default flip rate if none is.

    Raises:
        InputError: a limit that is no share, or a number of samples below 1.
    """
    from tfmp.converters.drift import DriftBudget
    from tfmp.converters.drift.verdict import accuracy_outlook, flip_outlook

    budget = DriftBudget.parse(f"confidence={confidence}")
    if samples is not None:
        check_count("samples", samples)
    if flip_rate is None and accuracy_drop is None:
        flip_rate = str(budget.flip_rate)
    found = []
    if flip_rate is not None:
        found.append(flip_outlook(budget, _share("flip_rate", flip_rate, budget), samples))
    if accuracy_drop is not None:
        limit = _share("accuracy_drop", accuracy_drop, budget)
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
    """Prints the outlooks."""
    with readers_may_leave():
        if shown.as_json:
            document = {"samples": samples} | {each.limit: each.to_dict() for each in found}
            click.echo(json.dumps(document, indent=2, allow_nan=False))
        elif not shown.quiet:
            from rich.console import Console

            from tfmp.shared.reporting import print_section

            console = Console(highlight=False)
            for each in found:
                limit = f"{each.limit} of at most {each.value:.4g}"
                section = Section(
                    f"{limit} ({each.confidence:.4g} confidence)",
                    tables=(_counts(each), _truths(each, samples)),
                    lines=() if samples is None else (_told(each, samples),),
                )
                print_section(section, console)
                console.print()
            console.print(
                "Samples with the same inputs count once. A FAIL takes a little more where a "
                "report makes several statements.",
                style="dim",
            )


def _counts(outlook: "Outlook") -> Table:
    flips = outlook.limit == "flip_rate"
    return Table(
        ("flips seen" if flips else "answers lost, gained", "PASS from", "FAIL up to"),
        tuple(
            (
                f"{seen.lost}" if flips else f"{seen.lost}, {seen.gained}",
                _samples(seen.passes_from),
                _samples(seen.fails_up_to),
            )
            for seen in outlook.seen
        ),
    )


def _truths(outlook: "Outlook", samples: int | None) -> Table:
    from tfmp.converters.drift.verdict import CHANCES

    what = "true rate" if outlook.limit == "flip_rate" else "answers that change"
    asked = [] if samples is None else [f"PASS with {samples:,} samples"]
    rows = []
    for truth in outlook.chances:
        chance = [] if truth.chance is None else [f"{truth.chance:.1%}"]
        rows.append((f"{truth.rate:.4%}", *map(_samples, truth.samples), *chance))
    return Table((what, *(f"{chance:.0%} PASS from" for chance in CHANCES), *asked), tuple(rows))


def _samples(count: int | None) -> str:
    return "never" if count is None else f"{count:,}"


def _told(outlook: "Outlook", samples: int) -> str:
    def number(count: int) -> str:
        what = "flip" if outlook.limit == "flip_rate" else "lost answer"
        return f"{count:,} {what}{'' if count == 1 else 's'}"

    passes, fails = outlook.passes_with, outlook.fails_with
    told = "no number is a PASS" if passes is None else f"a PASS has at most {number(passes)}"
    told += " and none is a FAIL" if fails is None else f" and a FAIL at least {number(fails)}"
    gained = "" if outlook.limit == "flip_rate" else ", if none is gained"
    return f"With {samples:,} samples, {told}{gained}; any other number is INCONCLUSIVE."

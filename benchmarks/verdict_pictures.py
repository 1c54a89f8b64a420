"""The pictures of docs/verdicts.md, and the sentences of verdicts that the page quotes.

    python benchmarks/verdict_pictures.py

Each picture is of a pair of outputs of tests/support/fp16_pairs.py, judged with the default budget.
Its title says what to see, and the relative L2 error and the number that decides, as multiples of
their limits. The script writes docs/pictures/ and brings the
quotations in the page up to date.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
from matplotlib import pyplot as plt

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "verdicts.md"
PICTURES = ROOT / "docs" / "pictures"
sys.path.append(str(ROOT / "tests" / "support"))

from fp16_pairs import PAIRS, Pair

from tfmp.converters.drift.verdict import Verdict
from tfmp.converters.drift.verdict.check import Check

GREY, BLUE, RED = "#7a8290", "#2563a8", "#c0392b"
STYLE = {"font.size": 11, "font.family": "DejaVu Sans", "legend.frameon": False}
STYLE |= {"axes.spines.top": False, "axes.spines.right": False}

# Draws both sides of an output.
Draw = Callable[[Any, np.ndarray, np.ndarray], None]
# Gives what is drawn of a side, of that side and the reference.
Part = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Picture:
    """One picture.

    Attributes:
        name: of its file.
        pair: name of the pair that it shows.
        check: name of the check that decides.
        decides: the number that it looks at.
        title: what to see.
        draw: draws the outputs of both models.
    """

    name: str
    pair: str
    check: str
    decides: str
    title: str
    draw: Draw


def curve(axes: Any, reference: np.ndarray, candidate: np.ndarray) -> None:
    """The curve of one sample."""
    axes.plot(reference[0], "-", color=GREY, linewidth=2, label="reference")
    axes.plot(candidate[0], ".", color=BLUE, label="candidate")
    finish(axes, "hours of one forecast", "load, MW")


def against(part: Part, across: str) -> Draw:
    """The candidate's numbers against the reference's."""

    def draw(axes: Any, reference: np.ndarray, candidate: np.ndarray) -> None:
        before, after = part(reference, reference), part(candidate, reference)
        ends = [before.min(), before.max()]
        axes.plot(ends, ends, "--", color=GREY, linewidth=1.5, label="right")
        axes.plot(before, after, ".", color=BLUE, markersize=4, label="candidate")
        finish(axes, f"{across}, reference", f"{across},\ncandidate")

    return draw


def wrong(axes: Any, reference: np.ndarray, candidate: np.ndarray) -> None:
    """Errors of samples, one after another."""
    error = np.abs(candidate - reference).max(axis=1)[:200]
    lost = error > 0.3 * reference.std(axis=0).min()
    for flags, style, color, label in ((~lost, ".", BLUE, "right"), (lost, "X", RED, "wrong")):
        axes.plot(np.flatnonzero(flags), error[flags], style, color=color, label=label)
    finish(axes, "samples (200 of 1,000)", "largest error, in the\noutput's unit")


def classes(axes: Any, reference: np.ndarray, candidate: np.ndarray) -> None:
    """Decisions for each class."""
    size = reference.shape[1]
    sides = ((-0.2, reference, GREY, "reference"), (0.2, candidate, BLUE, "candidate"))
    for shift, side, color, label in sides:
        count = np.bincount(side.argmax(axis=1), minlength=size)
        bars = axes.bar(np.arange(size) + shift, count, 0.38, color=color, label=label)
        axes.bar_label(bars, fontsize=9, padding=1)
    finish(axes, "class", "decisions (of 1,000)")


def lead(scores: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """By how much the reference's class leads."""
    best = reference.argmax(axis=1)[:, None]
    others = scores.copy()
    np.put_along_axis(others, best, -np.inf, axis=1)
    return np.take_along_axis(scores, best, axis=1)[:, 0] - others.max(axis=1)


def finish(axes: Any, across: str, up: str) -> None:
    """Names the axes, and leaves room for a legend."""
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.ticklabel_format(useOffset=False)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.25 * (high - low))
    axes.legend(ncols=2, loc="upper left")


ALL = (
    Picture(
        *("between-samples", "pressures beside an offset", "between_samples", "between samples"),
        "FP16 has steps of 0.5 hPa near 1013: most samples become equal",
        against(lambda side, _: side[:, 0], "pressure, hPa"),
    ),
    Picture(
        *("between-places", "a forecast beside an offset", "between_places", "within a sample"),
        *("FP16 has steps of 1 MW near 1500: the level is right, and the curve is lost", curve),
    ),
    Picture(
        *("between-columns", "a quantile beside the median", "between_columns", "between columns"),
        "Both columns are right, and their difference is lost",
        against(lambda side, _: side[:, 1] - side[:, 0], "quantile less median, minutes"),
    ),
    Picture(
        *("wrong-samples", "some samples beside an offset", "wrong_samples", "wrong samples"),
        *("One sample in 20 is wrong, and the others are right", wrong),
    ),
    Picture(
        *("near-end", "chances near one", "near_end", "distances from 1"),
        "FP16 has steps of 0.0005 below 1: the risks of most samples are lost",
        against(lambda side, _: 1e3 * (1 - side[:, 0]), "1 - survival, in thousandths"),
    ),
    Picture(
        *("rare-class", "a rare class", "class_flip_rate", "worst class"),
        *("Class 4 loses three of its four decisions", classes),
    ),
    Picture(
        *("decisions", "logits beside an offset", "flip_rate", "flips"),
        "FP16 has steps of 0.5 near 700: a class that leads by less is no longer decided",
        against(lead, "lead of a class, logits"),
    ),
)


def pair_of(picture: Picture) -> Pair:
    """The pair that a picture shows."""
    (pair,) = (one for one in PAIRS if one.name == picture.pair)
    return pair


@cache
def checks_of(picture: Picture) -> tuple[Check, Check]:
    """The check of the relative L2 error, and the one that the picture is about."""
    pair = pair_of(picture)
    checks = pair.judged(pair.harmful).checks
    pooled = next(check for check in checks if check.name == "rel_l2")
    named = (check for check in checks if check.name == picture.check)
    return pooled, next(check for check in named if check.verdict is not Verdict.PASS)


def sentence(picture: Picture) -> str:
    """What a report says of it."""
    _, check = checks_of(picture)
    return f"{check.verdict}: {check.text}."


def save(picture: Picture) -> None:
    """Draws one picture into its file."""
    pair, (pooled, check) = pair_of(picture), checks_of(picture)
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
        figure.suptitle(picture.title, fontsize=13, fontweight="bold", x=0.01, ha="left")
        title = f"relative L2 error: {share(pooled):.2g} of its limit; {picture.decides}: "
        axes.set_title(f"{title}{share(check):.2g} times its limit", fontsize=11, loc="left")
        picture.draw(axes, pair.reference["y"], pair.harmful["y"])
        figure.savefig(PICTURES / f"{picture.name}.png", dpi=100, metadata={"Software": None})
        plt.close(figure)


def share(check: Check) -> float:
    """What a check measured, or has shown for certain, as a multiple of its limit."""
    bound = check.lower is not None and check.verdict is not Verdict.PASS
    return float((check.lower if bound else check.measured) / check.limit)


# A picture of the page, and the sentence below it.
_SHOWN = r"(!\[[^]]*\]\(pictures/([\w-]+)\.png\)\n)(?:\n> ((?:FAIL|INCONCLUSIVE): [^\n]+)\n)?"


def quoted(page: str) -> dict[str, str]:
    """The sentence below each picture of the page, by the picture's name; "" if there is none."""
    return {name: text for _, name, text in re.findall(_SHOWN, page)}


def updated(page: str, texts: dict[str, str]) -> str:
    """The page with today's sentences."""

    def today(found: re.Match[str]) -> str:
        text = texts.get(found[2])
        return found[0] if text is None else f"{found[1]}\n> {text}\n"

    return re.sub(_SHOWN, today, page)


def main() -> None:
    """Draws all pictures, and writes the sentences of today's verdicts into the page."""
    for picture in ALL:
        save(picture)
    texts = {picture.name: sentence(picture) for picture in ALL}
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8"), texts), encoding="utf-8")
    print("\n".join(f"{name}: {text}" for name, text in texts.items()))


if __name__ == "__main__":
    main()

"""The pictures of docs/verdicts.md, and the sentences of reports that the page quotes.

    python benchmarks/verdict_pictures.py

Each picture is of a constructed case of the tests, validated with the default budget. To its left
are the outputs of both models; to its right is the share of the limit that the pooled number uses,
and the share that the rule uses which decides. The script writes docs/pictures/ and brings the
quotations in the page up to date. It needs the checkout's tests/support/.
"""

import os
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "verdicts.md"
PICTURES = ROOT / "docs" / "pictures"
sys.path.insert(0, str(ROOT / "tests" / "support"))

GREY, BLUE, RED, GREEN = "#7a8290", "#2563a8", "#c0392b", "#1b7f3b"

# A rule that uses more than its limit is drawn to here at most, and less than this as this much.
_MOST, _LEAST = 300.0, 0.003

# Behind a text that a line would cross.
_PLAIN = {"facecolor": "white", "edgecolor": "none", "pad": 1}

# Bars of the right half: what was measured, and its share of the limit.
Shares = list[tuple[str, float]]


@dataclass(frozen=True)
class Picture:
    """One picture.

    Attributes:
        name: of its file and of the section that shows it.
        case: the case of the tests that it is of.
        check: name of the check whose sentence is quoted.
        title: what to see.
        draw: draws the left half, of axes and the case's outputs; gives bars for the right half in
            place of the pooled distance, or [].
        rule: names the number that the rule looks at.
        share: gives its share of the limit, of the check and the report on the candidate.
    """

    name: str
    case: str
    check: str
    title: str
    draw: Callable[[Any, Any], Shares]
    rule: str
    share: Callable[[Any, Any], float]


def share_of(check: Any, _: Any = None) -> float:
    """The share of its limit that a check uses: of the bound that decided, if there is one."""
    value = check.measured
    if check.verdict == "FAIL" and check.lower is not None:
        value = check.lower
    elif check.upper is not None:
        value = check.upper
    return float(value / check.limit)


def firm_share(check: Any, _: Any) -> float:
    """The share that the lower bound uses, which knows no ties."""
    return float(check.lower / check.limit)


def distinct_share(_: Any, candidate: Any) -> float:
    """The share of the flip rate's limit that so few distinct samples leave open."""
    (rate,) = (one for one in candidate.checks if one.name == "flip_rate")
    return share_of(rate)


def sizes(values: np.ndarray) -> np.ndarray:
    """Root mean square of each column."""
    return np.sqrt((values.astype(np.float64) ** 2).reshape(-1, values.shape[-1]).mean(axis=0))


def only(tables: Any) -> Any:
    """The one output of a model."""
    (table,) = tables.values()
    return table


def columns(axes: Any, outputs: Any) -> None:
    """The size of each column on both sides."""
    reference, candidate = sizes(only(outputs.reference)), sizes(only(outputs.candidate))
    low = reference.min() / 5
    place = np.arange(len(reference))
    for shift, size, color, label in (
        (-0.2, reference, GREY, "reference"),
        (0.2, candidate, BLUE, "candidate"),
    ):
        axes.bar(place + shift, size, 0.4, color=color, label=label)
    dead = np.flatnonzero(candidate < low)
    axes.plot(dead + 0.2, np.full(len(dead), low * 1.6), "x", color=RED, label="dead")
    axes.set_yscale("log")
    axes.set_ylim(low, reference.max() * 30)
    axes.set_ylabel("size (RMS)")
    axes.legend(ncols=3, loc="upper right")


def boxes_and_scores(axes: Any, outputs: Any) -> Shares:
    columns(axes, outputs)
    count = only(outputs.reference).shape[-1]
    axes.set_xticks(range(count), ["x", "y", "w", "h", *(f"s{i}" for i in range(1, count - 3))])
    axes.set_xlabel("columns: a box in pixels, then six class scores")
    return []


def channels(axes: Any, outputs: Any) -> Shares:
    columns(axes, outputs)
    axes.set_xlabel("channels")
    return []


def tokens(axes: Any, outputs: Any) -> Shares:
    reference, candidate = only(outputs.reference)[0], only(outputs.candidate)[0]
    best = reference.argmax(axis=1)
    index = np.arange(len(best))

    def lead(scores: np.ndarray) -> np.ndarray:
        others = scores.copy()
        others[index, best] = -np.inf
        return scores[index, best] - others.max(axis=1)

    before, after = lead(reference), lead(candidate)
    kept = candidate.argmax(axis=1) == best
    axes.axhline(0, color="black", linewidth=0.8)
    axes.plot(index, before, "o", color=GREY, markersize=5, label="reference")
    axes.plot(index[kept], after[kept], "D", color=BLUE, markersize=4, label="candidate")
    axes.plot(index[~kept], after[~kept], "X", color=RED, markersize=7, label="another tag")
    axes.set_xlabel("tokens of one text")
    axes.set_ylabel("lead of the tag")
    axes.set_ylim(after.min() - 0.1, max(before.max(), after.max()) * 1.5)
    axes.legend(ncols=3, loc="upper right")
    return []


def signs(axes: Any, outputs: Any) -> Shares:
    reference, candidate = only(outputs.reference).ravel(), only(outputs.candidate).ravel()
    wrong = np.sign(reference) != np.sign(candidate)
    ends = np.array([-3e3, 3e3])
    axes.plot(ends, ends, "--", color=GREY, linewidth=1, label="right")
    axes.plot(reference[~wrong], candidate[~wrong], ".", color=BLUE, label="the large tenth")
    axes.plot(reference[wrong], candidate[wrong], ".", color=RED, label="wrong sign")
    for scale in (axes.set_xscale, axes.set_yscale):
        scale("symlog", linthresh=0.1)
    axes.set_xticks([-1e3, -1, 0, 1, 1e3], ["-1000", "-1", "0", "1", "1000"])
    axes.set_yticks([-1e3, -1, 0, 1, 1e3], ["-1000", "-1", "0", "1", "1000"])
    axes.set_xlabel("reference")
    axes.set_ylabel("candidate")
    axes.legend(loc="upper left")
    return []


def repeated(axes: Any, outputs: Any) -> Shares:
    rows = outputs.rows
    distinct = len(np.unique(rows))
    bars = axes.barh([1, 0], [len(rows), distinct], color=[GREY, RED])
    axes.bar_label(bars, [f"{len(rows)}", f"{distinct}"], padding=4)
    axes.axvline(59, color="black", linestyle="--", linewidth=1)
    axes.text(63, -0.62, "59 are needed", va="bottom")
    axes.set_yticks([1, 0], ["samples", "distinct"])
    axes.set_ylim(-0.7, 1.6)
    axes.set_xlim(0, 350)
    axes.set_xlabel("number")
    # What 0 of 300 would prove if all were distinct (Clopper and Pearson 1934).
    return [("as if all were distinct", (1 - 0.05 ** (1 / len(rows))) / 0.01)]


def classes(axes: Any, outputs: Any) -> Shares:
    reference, candidate = only(outputs.reference), only(outputs.candidate)
    size = reference.shape[1]
    counts = [np.bincount(side.argmax(axis=1), minlength=size) for side in (reference, candidate)]
    for shift, color, label, count in zip(
        (-0.2, 0.2), (GREY, BLUE), ("reference", "candidate"), counts, strict=True
    ):
        bars = axes.bar(np.arange(size) + shift, count, 0.38, color=color, label=label)
        axes.bar_label(bars, fontsize=9, padding=1)
    axes.set_ylim(0, max(counts[0]) * 1.45)
    axes.set_xlabel("class")
    axes.set_ylabel("decisions")
    axes.legend(ncols=2, loc="upper right")
    changed = np.count_nonzero(reference.argmax(axis=1) != candidate.argmax(axis=1))
    return [("flips of all samples", changed / len(reference) / 0.01)]


def ties(axes: Any, outputs: Any) -> Shares:
    reference, candidate = only(outputs.reference).ravel(), only(outputs.candidate).ravel()
    flipped = np.flatnonzero((reference >= 0.5) != (candidate >= 0.5))
    place = np.arange(len(flipped))
    high = 1e4 * np.abs(np.stack([reference, candidate])[:, flipped] - 0.5).max()
    axes.axhline(0, color="black", linewidth=0.8)
    for side, style, color, label in (
        (reference, "o", GREY, "reference"),
        (candidate, "X", RED, "candidate"),
    ):
        beyond = 1e4 * (side[flipped].astype(np.float64) - 0.5)
        axes.plot(place, beyond, style, color=color, markersize=5, label=label)
    axes.text(0, -1.25 * high, "up to 50 is a tie", va="center")
    axes.set_ylim(-1.5 * high, 1.7 * high)
    axes.set_xlabel(f"the {len(flipped)} samples that flip")
    axes.set_ylabel("probability over 0.5,\nin ten-thousandths")
    axes.legend(ncols=2, loc="upper right")
    return [("all decisions that change", 100 * len(flipped) / len(reference))]


def targets(axes: Any, outputs: Any) -> Shares:
    reference, candidate = only(outputs.reference), only(outputs.candidate)
    place = np.arange(30)
    for column, color in enumerate((GREY, BLUE)):
        axes.plot(place, reference[:30, column], "-", color=color, label=f"target {column + 1}")
        axes.plot(place, candidate[:30, column], "o", color=color, markersize=4)
    axes.plot([], [], "o", color="black", markersize=4, label="candidate")
    low, high = reference[:30].min(), reference[:30].max()
    axes.set_ylim(low - 0.2, high + 0.45 * (high - low))
    axes.set_xlabel("the first 30 samples")
    axes.set_ylabel("pressure")
    axes.legend(ncols=3, loc="upper right")
    changed = np.count_nonzero(reference.argmax(axis=1) != candidate.argmax(axis=1))
    return [("flips, if it were classes", changed / len(reference) / 0.01)]


def growth(axes: Any, outputs: Any) -> Shares:
    labels = np.asarray(outputs.labels, np.float64).ravel()
    errors = [
        np.abs(only(side).ravel().astype(np.float64) - labels).mean()
        for side in (outputs.reference, outputs.candidate)
    ]
    spread = labels.std()
    bars = axes.barh([2, 1, 0], [*errors, spread], color=[GREY, BLUE, "#d5d9e0"])
    axes.bar_label(bars, [f"{value:.2g}" for value in (*errors, spread)], padding=5, bbox=_PLAIN)
    axes.axvline(0.005 * spread, color="black", linestyle="--", linewidth=1)
    axes.text(0.005 * spread * 1.3, 2.62, "harmless to here", va="center")
    axes.set_yticks([2, 1, 0], ["reference", "candidate", "spread of labels"])
    axes.set_xscale("log")
    axes.set_xlim(2e-7, 20)
    axes.set_ylim(-0.6, 3)
    axes.set_xlabel("mean absolute error")
    return [("growth of the error", (errors[1] / errors[0] - 1) / 0.01)]


def sets(axes: Any, outputs: Any) -> Shares:
    pairs = list(zip(only(outputs.reference), only(outputs.candidate), strict=True))
    # The photograph with the most boxes that stand at another place of the list.
    moved = [np.abs(one[:, :4] - other[:, :4]).max(axis=1) > 1 for one, other in pairs]
    one, other = pairs[int(np.argmax([places.sum() for places in moved]))]
    for side, color, style in ((one, GREY, "-"), (other, BLUE, "--")):
        for rank, row in enumerate(side, 1):
            (x1, y1, x2, y2) = row[:4]
            axes.plot([x1, x2, x2, x1, x1], [y1, y1, y2, y2, y1], style, color=color, linewidth=2)
            place = (x1, y1) if side is one else (x2, y2)
            align = {"ha": "right", "va": "bottom"} if side is one else {"ha": "left", "va": "top"}
            axes.text(*place, f"{rank}.", color=color, fontsize=12, fontweight="bold", **align)
    axes.plot([], [], "-", color=GREY, label="reference, its order")
    axes.plot([], [], "--", color=BLUE, label="candidate, its order")
    axes.invert_yaxis()
    low, high = axes.get_ylim()[1], axes.get_ylim()[0]
    axes.set_ylim(high + 0.05 * (high - low), low - 0.3 * (high - low))
    axes.margins(x=0.1)
    axes.set_xlabel("pixels")
    axes.legend(ncols=2, loc="upper left")
    return []


def waves(axes: Any, outputs: Any) -> Shares:
    reference, candidate = only(outputs.reference), only(outputs.candidate)
    hours = np.arange(reference.shape[1])
    for town, color in zip((2, 0, 1), (GREY, BLUE, GREEN), strict=True):
        mean = reference[town].mean()
        for side, style in ((reference, "-"), (candidate, "--")):
            axes.plot(hours, 100 * (side[town] / mean - 1), style, color=color, linewidth=2)
    axes.plot([], [], "-", color="black", label="reference")
    axes.plot([], [], "--", color="black", label="candidate")
    axes.set_ylim(-0.7, 1)
    axes.set_xlabel("hours, of three towns")
    axes.set_ylabel("load beside its mean, %")
    axes.legend(ncols=2, loc="upper right")
    return []


def near_pixels(axes: Any, outputs: Any) -> Shares:
    row = 7
    reference, candidate = (
        only(tables)[0, row, :, 0] for tables in (outputs.reference, outputs.candidate)
    )
    place, wrong = np.arange(len(reference)), np.abs(candidate / reference - 1) > 0.1
    axes.plot(place, reference, "o", color=GREY, markersize=9, label="reference")
    axes.plot(place[~wrong], candidate[~wrong], "D", color=BLUE, markersize=4, label="candidate")
    axes.plot(place[wrong], candidate[wrong], "X", color=RED, markersize=7, label="wrong")
    axes.set_yscale("log")
    axes.set_ylim(0.02, 1000)
    axes.set_xlabel("pixels of one row of a map")
    axes.set_ylabel("metres")
    axes.legend(ncols=3, loc="upper right")
    return []


ALL = (
    Picture(
        "dead-scores",
        "boxes in pixels beside class scores that are all dead",
        "slice_rel_l2",
        "Boxes hide that each class score is dead",
        boxes_and_scores,
        "worst column",
        share_of,
    ),
    Picture(
        "tokens",
        "a third of all tokens with another tag, at a distance of 2e-4",
        "flip_rate",
        "Scores near 300 hide that tags change",
        tokens,
        "tokens that change",
        share_of,
    ),
    Picture(
        "signs",
        "nine of ten samples with the wrong sign beside a tenth that is 1000 times as large",
        "sample_share",
        "A few large samples hide that nine of ten are wrong",
        signs,
        "samples that are wrong",
        share_of,
    ),
    Picture(
        "channel",
        "one of 48 channels is dead",
        "slice_rel_l2",
        "47 channels hide a dead one",
        channels,
        "worst channel",
        share_of,
    ),
    Picture(
        "repeated",
        "one sample repeated 300 times",
        "min_samples",
        "300 copies are one sample",
        repeated,
        "what one sample proves",
        distinct_share,
    ),
    Picture(
        "rare-class",
        "a class of 5 in 1000 samples that is never decided any more",
        "class_flip_rate",
        "A rare class is lost, and the flip rate hardly moves",
        classes,
        "worst class",
        share_of,
    ),
    Picture(
        "ties",
        "probabilities near 0.5 that flip at the noise level",
        "flip_rate",
        "Answers that the reference hardly gave",
        ties,
        "those that are no ties",
        firm_share,
    ),
    Picture(
        "targets",
        "two regression targets near 100",
        "slice_rel_l2",
        "The larger of two pressures is no class",
        targets,
        "worst column",
        share_of,
    ),
    Picture(
        "growth",
        "a near-perfect regression with labels",
        "error_increase",
        "An error that grows from nothing to next to nothing",
        growth,
        "growth over the floor",
        share_of,
    ),
    Picture(
        "sets",
        "lists of detections in which ties change places",
        "flip_rate",
        "The same boxes, in another order",
        sets,
        "boxes without counterpart",
        share_of,
    ),
    Picture(
        "waves",
        "forecasts that become flat lines, declared as regression",
        "slice_rel_l2",
        "Levels hide that each wave is gone",
        waves,
        "variation within a sample",
        share_of,
    ),
    Picture(
        "near-pixels",
        "near pixels within depth maps are wrong",
        "slice_rel_l2",
        "Far pixels hide that near ones are wrong",
        near_pixels,
        "small values of a sample",
        share_of,
    ),
)


def check_of(picture: Picture, candidate: Any) -> Any:
    """The first check of the picture's name that decided: of columns, before those of places."""
    named = [check for check in candidate.checks if check.name == picture.check]
    return next((check for check in named if check.verdict is candidate.verdict), named[0])


def save(picture: Picture, outputs: Any, candidate: Any) -> None:
    """Draws one picture into its file."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams.update({"font.size": 11, "font.family": "DejaVu Sans", "axes.spines.top": False})
    mpl.rcParams.update({"axes.spines.right": False, "legend.frameon": False})
    mpl.rcParams.update({"legend.fontsize": 10, "legend.handlelength": 1.2})
    from matplotlib import pyplot as plt

    check = check_of(picture, candidate)
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9.6, 3.4), width_ratios=(1.25, 1), layout="constrained"
    )
    figure.suptitle(picture.title, fontsize=13, fontweight="bold", x=0.01, ha="left")
    bars = picture.draw(left, outputs) or [
        ("pooled distance", candidate.outputs[0].rel_l2 / 0.01),
    ]
    bars.append((picture.rule, picture.share(check, candidate)))
    shares = np.clip([share for _, share in bars], _LEAST, _MOST)
    colors = [RED if share > 1 else GREEN for _, share in bars]
    drawn = right.barh(range(len(bars))[::-1], shares, 0.5, color=colors)
    right.bar_label(drawn, [_times(share) for _, share in bars], padding=5, bbox=_PLAIN)
    right.set_yticks(range(len(bars))[::-1], [fill(label, 14) for label, _ in bars])
    right.axvline(1, color="black", linestyle="--", linewidth=1)
    right.text(1, 1.62, "limit ", ha="right", va="top")
    right.set_xscale("log")
    right.set_xlim(_LEAST, _MOST * 20)
    right.set_ylim(-0.6, 1.65)
    right.set_xticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])
    right.minorticks_off()
    right.set_xlabel("measured, as a multiple of its limit")
    PICTURES.mkdir(exist_ok=True)
    figure.savefig(PICTURES / f"{picture.name}.png", dpi=100, metadata={"Software": None})
    plt.close(figure)


def _times(share: float) -> str:
    return f"{share:.2g}" if share < 100 else f"{share:,.0f}"


_QUOTED = r"(!\[[^]]*\]\(pictures/([\w-]+)\.png\)\n\n> )([^\n]+)\n"


def quoted(page: str) -> dict[str, str]:
    """The sentence below each picture of the page, by the picture's name."""
    return {name: text for _, name, text in re.findall(_QUOTED, page)}


def sentence(picture: Picture, candidate: Any) -> str:
    """The sentence of a report on the check that the picture is about."""
    return f"{candidate.verdict}: {check_of(picture, candidate).text}."


def validated(picture: Picture) -> tuple[Any, Any]:
    """The outputs of a picture's case, and the report on its candidate."""
    from verdict_cases import CASES
    from verdict_models import report_of

    (case,) = (one for one in CASES if one.name == picture.case)
    with tempfile.TemporaryDirectory() as folder:
        (candidate,) = report_of(case, Path(folder)).candidates
    return case.outputs(), candidate


def main() -> None:
    """Draws all pictures, and writes the sentences of today's reports into the page."""
    page = PAGE.read_text(encoding="utf-8")
    texts = {}
    for picture in ALL:
        outputs, candidate = validated(picture)
        save(picture, outputs, candidate)
        texts[picture.name] = sentence(picture, candidate)
        print(f"{picture.name}: {texts[picture.name]}")
    page = re.sub(_QUOTED, lambda found: f"{found[1]}{texts[found[2]]}\n", page)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()

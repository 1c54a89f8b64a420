"""The terminal table, wide and narrow, plain and hostile."""

from io import StringIO

import pytest
from rich.console import Console

from tfmp.converters.report.terminal import print_report


def printed(report, width: int = 120, **options) -> str:
    stream = StringIO()
    print_report(report, Console(file=stream, width=width, **options))
    return stream.getvalue()


def test_a_wide_terminal_says_all(report) -> None:
    text = printed(report)
    heading = text.splitlines()[0].split()
    assert heading[:3] == ["Candidate", "Runner", "FP16"]
    assert "Size" in heading
    for words in ("good.onnx", "✓ PASS", "✗ FAIL", "? INCONCLUSIVE", "weights only", "0/450"):
        assert words in text
    assert "note: outputs matched by position" in text
    assert "note: input 'image' holds 1 values that are NaN or infinite" in text
    assert text.splitlines()[-1] == (
        "✗ FAIL  1 of 4 candidates passed against digits, on 450 samples."
    )
    text = " ".join(printed(report).split())
    for candidate in report.candidates:
        for reason in candidate.reasons:
            assert " ".join(reason.split()) in text
    assert "\x1b" not in printed(report)
    assert "\x1b[1;32m" in printed(report, force_terminal=True, color_system="standard")
    lines = printed(report, width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert "Size" not in lines[0]
    assert lines[1].split()[0] == "good.onnx"
    assert lines[1].endswith("✓ PASS        ")


@pytest.mark.parametrize(
    ("width", "gone"),
    [(150, ()), (100, ("Runner",)), (80, ("Runner", "Max", "Size")), (66, ("SQNR", "FP16"))],
)
def test_columns_make_room_for_names(make_report, width, gone) -> None:
    name = "image_classification.onnx"
    heading, row, *_ = printed(make_report(names=(name,)), width=width).splitlines()
    assert row.startswith(name)
    assert not any(word in heading for word in gone)
    for kept in ("Rel. L2", "Flips", "Verdict"):
        assert kept in heading


@pytest.mark.parametrize("width", [80, 200])
def test_names_reach_the_terminal_as_text(hostile_report, width: int) -> None:
    text = printed(hostile_report, width=width)
    assert "\x1b" not in text
    assert "\u202e" not in text
    # Nothing is taken for Rich's markup, in the table or in the reasons.
    lines = text.replace("\n", "")
    named = [reason for one in hostile_report.candidates[:3] for reason in one.reasons]
    reasons = sum("evil" in reason for reason in named)
    assert lines.count("[x](http://evil)") >= reasons + len(hostile_report.candidates)

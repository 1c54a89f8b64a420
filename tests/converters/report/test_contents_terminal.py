"""The terminal table, wide and narrow, plain and hostile."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from tfmp.converters.report.contents import print_report


def printed(report, width: int = 120, verbose: bool = False, **options) -> str:
    stream = StringIO()
    print_report(report, Console(file=stream, width=width, **options), verbose)
    return stream.getvalue()


def test_what_is_wrong_fits_a_screen_and_the_rest_is_asked_for(report) -> None:
    text = printed(report)
    assert text.split()[:3] == ["Candidate", "Verdict", "Decided"]
    for words in ("good.onnx", "✓ PASS", "✗ FAIL", "? INCONCLUSIVE", "FP16 weights only", "what"):
        assert words in text
    assert "Note: input 'image' holds 1 values that are NaN or infinite" in text
    assert "outputs matched by position" not in text
    assert text.splitlines()[-1] == (
        "✗ FAIL  1 of 4 candidates passed against digits, on 450 samples."
    )
    both = replace(report, candidates=report.candidates[1:3])
    assert len(printed(both, width=80).splitlines()) <= 25
    assert len(printed(replace(report, candidates=report.candidates[:1])).splitlines()) <= 5
    good, broken = report.candidates[:2]
    explained = replace(good, explanation=broken.explanation)
    told = printed(replace(report, candidates=(explained,)), width=80).splitlines()
    assert [line.split()[0] for line in told[2:5]] == ["good.onnx", "where", "see"]
    text = " ".join(printed(report, verbose=True).split())
    for candidate in report.candidates:
        for reason in candidate.reasons:
            assert " ".join(reason.split()) in text
    assert "Note: outputs matched by position" in text
    assert "\x1b" not in printed(report)
    assert str(report) == printed(report).rstrip()
    assert "\x1b[1;32m" in printed(report, force_terminal=True, color_system="standard")


@pytest.mark.parametrize(
    ("width", "gone"), [(150, ()), (98, ("Size", "Drift")), (75, ("Size", "Drift", "Runtime"))]
)
def test_columns_make_room_for_names(make_report, width, gone) -> None:
    name = "image_classification.onnx"
    heading, row, *_ = printed(make_report(names=(name,)), width=width).splitlines()
    assert row.startswith(name)
    assert {word for word in ("Size", "Drift", "Runtime") if word not in heading} == set(gone)

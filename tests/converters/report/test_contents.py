"""The report as a page, in Markdown and in a terminal; and what a browser makes of the page."""

import re
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from browser import browse, measured, needs_chromium, requested
from notebook_cells import Page, headline_and_page
from rich.console import Console

from tfmp.converters.report.contents import print_report, to_html, to_markdown


def test_says_everything(report) -> None:
    words = Page(to_html(report)).words
    assert words.startswith("FAIL: drift of digits ✗ FAIL Drift of digits 1 of 4 candidates passed")
    for candidate in report.candidates:
        assert candidate.name in words
        for reason in candidate.reasons:
            assert " ".join(reason.split()) in words
    for text in (
        report.data.sha256,
        "holds 1 values that are NaN or infinite",
        "Note: outputs matched by position",
        "class ids",
        "layer 'probs': first value that is not finite",
        "Relative L2 error by layer in the order of execution, on a logarithmic scale",
        "probs ← look here first ✗ 7 not finite, alone 7 not finite",
        "sample 3: class 1, candidate 2, rel. L2 ∞ sample 11: rel. L2 0.25",
        "Layers were measured on 8 samples",
        "tensorflow",
        "2.21.0",
        "min_samples",
    ):
        assert text in words


def test_a_notebook_shows_the_page(hostile_report) -> None:
    headline, page = headline_and_page(hostile_report._repr_html_())
    assert headline.startswith("✗ FAIL: 1 of 4 candidates passed against")
    base = '<base href="about:srcdoc">'
    assert page.count(base) == 1  # links within the page stay in its frame
    assert page.replace(base, "") == to_html(hostile_report)


def test_page_is_inert_and_small(hostile_report, report) -> None:
    page = Page(to_html(hostile_report))
    tags = {tag for tag, _ in page.tags}
    assert tags.isdisjoint({"script", "link", "iframe", "object", "base", "form"})
    for _, attributes in page.tags:
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        assert attributes.get("href", "#").startswith("#")
        assert (attributes.get("src") or "data:image/png;base64,").startswith("data:image/png;")
    policy = next(a for t, a in page.tags if t == "meta" and "http-equiv" in a)
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert "url(" not in to_html(hostile_report)
    assert "@import" not in to_html(hostile_report)
    assert len(to_html(report).encode()) < 100_000
    text = to_html(hostile_report)
    assert "\x1b" not in text
    assert "\u202e" not in text
    words = Page(text).words
    assert r"<script>alert(1)</script>|`*[x](http://evil)\x1b[31m\u202e&amp;0.onnx" in words


def test_the_conclusion_comes_first_and_versions_last(report) -> None:
    words = Page(to_html(report)).words
    order = ("crashed.onnx", "reproduce.py", "Budget used", "Gained", "SHA-256", "tensorflow")
    places = [words.index(text) for text in order]
    assert places == sorted(places)


def test_is_accessible(report) -> None:
    page = Page(to_html(report))
    root = next(attributes for tag, attributes in page.tags if tag == "html")
    assert root["lang"] == "en"
    assert [tag for tag, _ in page.tags].count("h1") == 1
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in page.tags:
        if "aria-labelledby" in attributes:
            assert attributes["aria-labelledby"] in ids
        if tag == "svg":  # the table that it stands in is its text
            assert attributes["aria-hidden"] == "true"
        if tag == "img":
            assert attributes["alt"]
        if tag == "th":
            assert attributes["scope"] in ("row", "col")
        if attributes.get("role") == "region":
            assert attributes["tabindex"] == "0"
            assert attributes["aria-label"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_have_contrast(scheme: str, report) -> None:
    # WCAG 2.2, 1.4.3: 4.5 to 1 for text.
    style = to_html(report)
    light, dark = re.findall(r":root \{(.*?)\}", style, re.DOTALL)[:2]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", light if scheme == "light" else dark))
    for name in ("ink", "quiet", "pass", "fail", "inconclusive"):
        for ground in ("paper", "panel"):
            ratio = _contrast(colours[name], colours[ground])
            assert ratio >= 4.5, (scheme, name, ground, ratio)


def _contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_writing_it_does_not_import_heavy_libraries(report, tmp_path: Path) -> None:
    source = tmp_path / "drift.json"
    report.save(source)
    code = (
        "import sys; from tfmp.converters.report.jsonio import load;"
        f"load({str(source)!r}).save({str(tmp_path / 'drift.html')!r});"
        "heavy = ('matplotlib', 'tensorflow', 'scipy.stats');"
        "print([name for name in heavy if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout.strip() == "[]"


@needs_chromium
class TestBrowser:
    """What headless Chromium says about the page."""

    def test_no_console_message_and_no_request(self, hostile_report, tmp_path: Path) -> None:
        page = hostile_report.save(tmp_path / "drift.html")
        log = tmp_path / "net.json"
        result = browse(page, "--enable-logging=stderr", f"--log-net-log={log}", "--dump-dom")
        assert "CONSOLE" not in result.stderr
        assert "✗ FAIL" in result.stdout
        assert requested(log) == set()

    def test_a_page_that_asks_for_something_would_be_noticed(self, tmp_path: Path) -> None:
        page = tmp_path / "bad.html"
        page.write_text("<img src='http://127.0.0.1:9/x.png'><script>console.error('no')</script>")
        log = tmp_path / "net.json"
        result = browse(page, "--enable-logging=stderr", f"--log-net-log={log}", "--dump-dom")
        assert "CONSOLE" in result.stderr
        assert "http://127.0.0.1:9/x.png" in requested(log)

    def test_no_table_is_wider_than_a_window(self, report, tmp_path: Path) -> None:
        beyond = (
            "[...document.querySelectorAll('.wide')]"
            ".filter(e => e.scrollWidth > e.clientWidth).map(e => e.ariaLabel)"
        )
        assert measured(to_html(report), beyond, tmp_path, 1000) == []

    def test_a_phone_shows_the_verdict_and_a_page_as_wide_as_it_is(
        self, report, tmp_path: Path
    ) -> None:
        where = (
            "{bottom:document.querySelector('header .verdict').getBoundingClientRect().bottom,"
            "page:document.documentElement.scrollWidth,width:innerWidth}"
        )
        found = measured(to_html(report), where, tmp_path, width=390)
        assert 0 < found["bottom"] < 200
        assert found["page"] <= found["width"]  # nothing makes the page itself scroll sideways
        first, broken, *_ = report.candidates
        others = [broken, replace(broken, name="broken.tflite")]
        two = replace(report, candidates=others)
        picture = "document.querySelector('.bars').getBoundingClientRect().bottom"
        assert 0 < measured(to_html(two), picture, tmp_path, width=390) < 844  # the first screen
        report = replace(report, candidates=[replace(first, name="long_name" * 20), *others])
        where = "{page:document.documentElement.scrollWidth,width:innerWidth}"
        found = measured(to_html(report), where, tmp_path, width=390)
        assert found["page"] <= found["width"]


def test_shows_table_reasons_data_and_budget(report) -> None:
    text = to_markdown(report)
    lines = text.splitlines()
    assert lines[0] == "## ✗ Drift report: FAIL"
    assert lines[2] == "1 of 4 candidates passed against digits, on 450 samples."
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 6 + 6
    assert "| **✓ PASS** |" in table[2]
    assert "- **broken.onnx**" in lines
    what = "1 of 4,500 values are NaN or infinite where the reference has a number"
    assert f"  - **what** {what}; the data itself holds 1 such values" in lines
    assert "- Note: input 'image' holds 1 values that are NaN or infinite" in lines
    told = f"- Data: dict of arrays, 450 samples, sha256 {report.data.sha256[:12]}. Budget: the "
    assert f"{told}default, except rel_l2 0.05." in lines
    assert "- **open.tflite** outputs matched by position" in lines
    assert lines[-1] == f"| open.tflite | {'ab' * 32} |"
    assert len(lines) < 40


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

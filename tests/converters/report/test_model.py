"""The report as data: its verdict, judging again, saving; and hostile texts in every form."""

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt
from notebook_cells import Page
from rich.console import Console

from tfmp.converters.drift.verdict.check import Verdict
from tfmp.converters.report.contents import print_report
from tfmp.converters.report.model import SUFFIXES, DriftReport, Latency, Stage, render
from tfmp.converters.shared.errors import InputError


def test_candidates_are_judged_each_and_the_report_by_the_worst(report) -> None:
    verdicts = [candidate.verdict for candidate in report.candidates]
    assert verdicts == ["PASS", "FAIL", "INCONCLUSIVE", "FAIL"]
    assert report.verdict is Verdict.FAIL
    assert report.verdict == "FAIL"
    candidate = report.candidates[0]
    assert candidate.runner.fp16 == "emulated"
    assert candidate.outputs[0].rel_l2 < 1e-3
    assert candidate.outputs[0].flips == 0
    assert candidate.labels[0].lost == 0


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".HTML"])
def test_save_writes_the_form_of_the_suffix(report, tmp_path: Path, suffix: str) -> None:
    path = report.save(tmp_path / f"drift{suffix}")
    assert path.read_text(encoding="utf-8") == render(report, suffix)
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


def test_paths_that_are_refused(report, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"report expects a path, .*; received 3 of type int"):
        report.save(3)
    with pytest.raises(InputError) as caught:
        report.save(tmp_path / "drift.pdf")
    assert str(caught.value) == (
        f"report {str(tmp_path / 'drift.pdf')!r} has suffix '.pdf'; expected one of .json, .html, "
        ".md, .xml. Change the file's name."
    )
    assert not list(tmp_path.iterdir())


HOSTILE = [
    "<script>evil()</script><img src=x onerror=evil()>",
    "![evil](http://evil/x.png) [evil](javascript:evil) <http://evil> http://evil www.evil.com",
    "evil@evil.com &lt;evil&gt; &#60;evil&#62;",
    "` <b>evil</b> `` [evil](x) ```",
    "` | evil | `",
    "# evil",
    "> evil",
    "- evil",
    "+ evil",
    "1. evil",
    "1) evil",
    "        evil",
    "***",
    "---",
    "===",
    "| evil | evil |\n| --- | --- |\n| evil | evil |",
    "evil\n\n# evil\n\n---\nevil: evil\n---\n```evil",
    "evil\r\n\r\n<script>evil()</script>",
    "evil\x1b[31m\x1b]0;evil\x07\x00\x9b2J\u202eevil\u2028evil\ufeff",
    "evil\\",
    "**evil** _evil_ ~~evil~~ $evil$ :evil: {{ evil }} {% evil %}",
    "]]><!-- evil --> <?evil?> \"evil' onload='evil()",
    "\ud800evil 🦊 evil",
    "",
]


def with_texts(value: Any, text: str) -> Any:
    """The same with one text in the place of all texts."""
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return text
    if isinstance(value, tuple):
        return tuple(with_texts(item, text) for item in value)
    if isinstance(value, Mapping):
        return {key: with_texts(item, text) for key, item in value.items()}
    if is_dataclass(value) and not hasattr(value, "to_json"):
        changes = {
            item.name: with_texts(getattr(value, item.name), text)
            for item in fields(value)
            if item.init and item.name not in ("kind", "totals", "labels", "schema")
        }
        return replace(value, **changes)
    return value


@pytest.fixture
def full(report: DriftReport) -> DriftReport:
    """A report with everything that renderings show."""
    first = report.candidates[0]
    latency = Latency(1.0, 0.5, 2.0, 100, 1, "onnxruntime", "CPU", 2**20, "float32")
    stages = (Stage("export", first.outputs), Stage("weights", (), "none"))
    full = [
        replace(one, latency=latency, latencies=(latency,), stages=stages, notes=("note",))
        for one in report.candidates
    ]
    reference = replace(report.reference, latency=latency, latencies=(latency,), notes=("note",))
    return replace(report, candidates=tuple(full), reference=reference)


@pytest.fixture(params=HOSTILE, ids=ascii)
def hostile(request: pytest.FixtureRequest, full: DriftReport) -> DriftReport:
    return with_texts(full, request.param)


def kinds_of(text: str) -> list[str]:
    """The kinds of all parts of a text in GitHub's Markdown, in their order."""
    parser = MarkdownIt("gfm-like", {"linkify": False}).enable(["table", "strikethrough"])
    found = []
    for token in parser.parse(text):
        found += [token.type, *(each.type for each in token.children or ())]
    return found


# What a report is made of.
BENIGN = {
    *(f"{kind}_{end}" for end in ("open", "close") for kind in ("heading", "paragraph", "strong")),
    *(f"{kind}_{end}" for end in ("open", "close") for kind in ("bullet_list", "list_item")),
    *(f"{k}_{end}" for end in ("open", "close") for k in ("table", "thead", "tbody", "tr", "th")),
    *("td_open", "td_close", "inline", "text", "text_special", "softbreak", "code_inline"),
}


def test_markdown_has_the_parts_of_a_report_only(hostile: DriftReport) -> None:
    text = render(hostile, ".md")
    kinds = kinds_of(text)
    assert set(kinds) <= BENIGN
    assert kinds.count("code_inline") == 1  # the command of the explanation, in which nothing links
    hashed = bool(hostile.reference.sha256)
    assert (kinds.count("heading_open"), kinds.count("table_open")) in ((2, 2), (4, 3))
    assert kinds.count("tr_open") == 1 + 4 + 1 + 5 + hashed * (1 + 4)
    outside = re.sub("`[^`\n]*`", "", text)
    assert "http:" not in outside
    assert "www." not in outside


def tags_of(page: str) -> list[tuple[str, list[str]]]:
    return [(tag, list(attributes)) for tag, attributes in Page(page).tags]


def test_a_page_has_the_same_tags_whatever_its_texts_are(full: DriftReport) -> None:
    plain = tags_of(render(with_texts(full, "plain"), ".html"))
    assert plain
    # A text of two sentences is a finding and its advice.
    for text in (text for text in HOSTILE if text and ". " not in text):
        page = render(with_texts(full, text), ".html")
        assert tags_of(page) == plain, ascii(text)
        assert all(char.isprintable() or char in "\n\xa0" for char in page), ascii(text)


def test_every_form_keeps_its_parts(hostile: DriftReport, full: DriftReport) -> None:
    tags = [each.tag for each in ElementTree.fromstring(render(hostile, ".xml")).iter()]
    assert tags == [each.tag for each in ElementTree.fromstring(render(full, ".xml")).iter()]
    stream = StringIO()
    print_report(hostile, Console(file=stream, width=100), verbose=True)
    shown = stream.getvalue()
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert "[evil]" in shown or "[evil]" not in hostile.reference.name  # no markup of Rich's

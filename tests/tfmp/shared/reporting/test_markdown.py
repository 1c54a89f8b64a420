"""Sections as Markdown: nested, and inert whatever texts hold."""

from tfmp.shared.reporting import Command, Section, Table, to_markdown

HOSTILE = "<script>alert(1)</script>|`*[x](http://evil)\x1b[31m\u202e&amp;"

INNER = Section("a.onnx", facts=(("what", "it fails"), ("do", Command("tfmp-convert a | b"))))
TABLE = Table(("File", "Drift"), (("✓ PASS", "0.1"),), words=("File",))


def test_markdown_nests_sections_and_keeps_commands_apart() -> None:
    first = Section("unseen", tables=(TABLE,), parts=(INNER, Section("empty")), quiet=("# 1",))
    text = to_markdown(
        "Heading", "1. it says", [first, Section("Next", lines=("- b",)), Section("")]
    )
    assert text.splitlines() == [
        *("## Heading", "", "1\\. it says", ""),
        *("| File | Drift |", "| --- | ---: |", "| **✓ PASS** | 0.1 |", ""),
        *("- **a.onnx**", "  - **what** it fails", "  - **do** `tfmp-convert a | b`", "- \\# 1"),
        *("", "### Next", "", "- \\- b"),
    ]


def test_markdown_shows_texts_as_they_are() -> None:
    text = to_markdown("h", "c", [Section("", tables=(Table((HOSTILE, "b"), (("1", "2"),)),))])
    assert text.splitlines()[4] == (
        r"| \<script>alert(1)\</script>\|\`\*\[x\](http\://evil)\\x1b\[31m\\u202e\&amp; | b |"
    )
    text = to_markdown("rel_l2 of a: 1 -> 2", "_emphasis_ :smile: ~gone~", [])
    assert text == "## rel_l2 of a: 1 -> 2\n\n\\_emphasis\\_ \\:smile: \\~gone\\~\n"

"""Sections as Markdown: nested, and inert whatever texts hold."""

from tfmp.shared.reporting import Command, Section, Table, to_markdown

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

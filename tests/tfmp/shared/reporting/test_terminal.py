"""Sections on a terminal: commands in one piece, and texts inert."""

from io import StringIO

from rich.console import Console

from tfmp.shared.reporting import Command, Section, Table, print_section

HOSTILE = "<script>alert(1)</script>|`*[x](http://evil)\x1b[31m\u202e&amp;"


def test_a_terminal_keeps_a_command_in_one_piece_and_texts_inert() -> None:
    stream = StringIO()
    command = Command(f"tfmp-convert {'long ' * 30}end")
    part = Section("t", lines=(HOSTILE,), facts=(("where", "in " * 20 + "it"), ("do", command)))
    print_section(Section("Title", parts=(part,)), Console(file=stream, width=40))
    lines = stream.getvalue().splitlines()
    assert lines[:2] == ["Title", "t"]
    assert r"<script>alert(1)</script>|`*[x](http://evil)\x1b[31m\u202e&amp;" in "".join(
        line.strip() for line in lines
    )
    assert lines[-1] == f"  do     {command}"
    assert lines[-2].startswith("         it")


def test_columns_are_as_wide_as_they_need_and_lines_end_without_spaces():
    table = Table(("name", "value"), (("a", "12"), ("longer", "")))
    assert str(table).splitlines() == [
        "name    value",
        "------  -----",
        "a       12",
        "longer",
    ]

"""Tables for a terminal."""

from tfmp.shared.tables import table


def test_columns_are_as_wide_as_they_need_and_lines_end_without_spaces():
    assert table([("name", "value"), ("a", "12"), ("longer", "")]).splitlines() == [
        "name    value",
        "------  -----",
        "a       12",
        "longer",
    ]

"""Values, lists and errors of others inside a sentence."""

import pytest

from tfmp.shared.wording import first_line, listed, shown


def test_a_value_is_shown_with_its_type():
    assert shown("7") == "'7' of type str"


@pytest.mark.parametrize(
    ("names", "text"), [([], ""), (["a", "b"], "a, b"), (["a", "b", "c", "d"], "a, b and 2 more")]
)
def test_long_lists_are_cut_and_counted(names, text):
    assert listed(names, most=2) == text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("\n no such shape \n at line 3"), "no such shape "),
        (ValueError(), "ValueError"),
        (RuntimeError("  "), "RuntimeError"),
    ],
)
def test_an_error_is_told_by_its_first_line_or_its_class(error, text):
    assert first_line(error) == text

"""DriftBudget: defaults, parsing, overrides, and the text of every refusal."""

import pytest

from tfmp.converters.drift.budget import DriftBudget
from tfmp.converters.shared.errors import InputError


def test_59_samples_bound_95_percent_of_inputs() -> None:
    # Wilks 1941: the smallest n with 0.95**n <= 0.05.
    assert 0.95**59 <= 0.05 < 0.95**58


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rel_l2", "budget 'rel_l2' names no limit; expected NAME=VALUE"),
        ("rel=1", "budget 'rel=1' names no limit; expected NAME=VALUE"),
        ("overrides=1", "budget 'overrides=1' names no limit"),
        (
            "rel_l2=small",
            "budget 'rel_l2=small': 'small' is not a value of rel_l2; expected a number, such as "
            "0.01, or none to switch the limit off.",
        ),
        ("min_samples=1.5", "'1.5' is not a value of min_samples; expected a whole number."),
        ("confidence=none", "'none' is not a value of confidence; expected a number"),
        ("a.confidence=0.9", "output 'a' cannot have its own 'confidence'; expected one of rel_l2"),
        (
            "rel_l2=-1",
            "rel_l2 must be a finite number of at least 0, or none to switch it off; received "
            "-1.0 (float).",
        ),
        ("a.rel_l2=nan", "a.rel_l2 must be a finite number of at least 0"),
        (
            "y.accuracy_ratio=1.01",
            "y.accuracy_ratio is a ratio of the candidate's value to the reference's: expected "
            "more than 0 and at most 1, such as 0.999, received 1.01. For a difference, limit "
            "accuracy_drop.",
        ),
        ("accuracy_ratio=0", "accuracy_ratio is a ratio of the candidate's value"),
        ("rel_l2=inf", "rel_l2 must be a finite number of at least 0"),
        ("confidence=1", "confidence must lie between 0.5 and 1, received 1.0. Use 0.95"),
        ("min_samples=0", "min_samples must be a whole number of at least 1, received 0."),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        DriftBudget.parse([text])
    assert message in str(caught.value)


def test_values_of_other_types_are_refused_too() -> None:
    with pytest.raises(InputError, match=r"rel_l2 must be .* received '1' \(str\)"):
        DriftBudget(rel_l2="1")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"min_samples .* received True"):
        DriftBudget(min_samples=True)

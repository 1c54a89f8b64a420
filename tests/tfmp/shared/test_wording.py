"""Values, lists and errors of others inside a sentence."""

import pytest

from tfmp.shared.wording import alike_once, first_line, listed, one_line


@pytest.mark.parametrize(
    ("names", "text"), [([], ""), (["a", "b"], "a, b"), (["a", "b", "c", "d"], "a, b and 2 more")]
)
def test_long_lists_are_cut_and_counted(names, text):
    assert listed(names, most=2) == text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("\n no such shape \n at line 3"), "no such shape"),
        (ValueError(), "ValueError"),
        (
            RuntimeError(
                'Graph execution error:\n\nDetected at node Cast defined at\n  File "a.py"'
                "\n\nCast is not supported\n\t [[{{node Cast}}]]"
            ),
            "Cast is not supported",
        ),
        (
            ValueError(
                "Exception encountered when calling Net.call().\n\n\x1b[1mno scope\x1b[0m\n"
            ),
            "no scope",
        ),
        (
            ValueError(
                "{{function_node __wrapped__Cast_device_/job:a}} No such cast [Op:Cast] name: "
            ),
            "No such cast",
        ),
        (
            NotImplementedError(
                "\nObject VAE was made by\npassing arguments.\n\nExample:\n\nclass"
            ),
            "Object VAE was made by passing arguments.",
        ),
    ],
)
def test_an_error_is_told_by_its_first_line_or_its_class(error, text):
    assert first_line(error) == text


def test_an_error_on_one_line_has_no_colours():
    error = ValueError("Exception in \x1b[1mNet\x1b[0m.\n\n  No scope\n")
    assert one_line(error) == "Exception in Net. No scope"


MANY = [f"kept in FP32: Exp in layer_{i}: reaches {i}e5" for i in range(16)]
ONCE = f"{MANY[0]} (and 15 notes more that differ in names or numbers only)"


@pytest.mark.parametrize(
    ("notes", "told"),
    [
        (MANY, [ONCE]),
        (["first", MANY[0], "between", *MANY[1:]], ["first", ONCE, "between"]),
        (
            [f"kept in FP32: Exp in {name}: overflows" for name in ("a", "norm", "head", "tail")],
            [
                "kept in FP32: Exp in a: overflows (and 3 notes more that differ in names or "
                "numbers only)"
            ],
        ),
        (
            [f"output {name!r} is matched" for name in ("a b", "c", "d", "e")],
            ["output 'a b' is matched (and 3 notes more that differ in names or numbers only)"],
        ),
    ],
)
def test_sentences_that_differ_in_names_or_numbers_are_one_with_a_count(notes, told):
    assert alike_once(notes) == told


@pytest.mark.parametrize(
    "notes",
    [
        [],
        MANY[:3],  # few enough to read
        [f"kept in FP32: {op} in head: overflows" for op in ("Exp", "Mul", "Sum", "Pow")],
        [f"stays in {kind}" for kind in ("FP16", "FP32", "float16", "float32", "bfloat16")],
    ],
)
def test_few_sentences_and_other_sentences_stay(notes):
    assert alike_once(notes) == notes

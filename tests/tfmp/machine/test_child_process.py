"""Calls in processes of their own: results, errors, limits of memory, and ends without a word."""

import operator
import os

import pytest

from tfmp.machine.child_process import ApartError, call_apart, variables_set

MIB = 2**20


def call(*arguments):
    return call_apart(*arguments, memory_limit=256 * MIB, variables={"TFMP_APART": "yes"})


def test_the_result_comes_back_and_variables_are_set_there_only():
    assert call(os.getenv, "TFMP_APART") == "yes"
    assert "TFMP_APART" not in os.environ


def test_a_call_that_takes_too_much_memory_is_ended():
    with pytest.raises(ApartError, match="out of memory") as caught:
        call(operator.mul, b"x", 1024 * MIB)
    assert caught.value.out_of_memory
    assert len(call(operator.mul, b"x", 64 * MIB)) == 64 * MIB


@pytest.mark.parametrize(
    ("function", "argument", "reason"),
    [
        (int, "x", "ValueError: invalid literal for int"),
        (os._exit, 3, "its process ended without a result .exit status 3."),
    ],
)
def test_a_call_that_fails_says_why(function, argument, reason):
    with pytest.raises(ApartError, match=reason) as caught:
        call(function, argument)
    assert not caught.value.out_of_memory


def test_a_function_that_another_process_cannot_find():
    with pytest.raises(ValueError, match="Define functions and classes at the top of a module"):
        call(lambda: 1)


def test_variables_come_back(monkeypatch):
    monkeypatch.setenv("TFMP_ONE", "before")
    with variables_set({"TFMP_ONE": "now", "TFMP_TWO": "now"}):
        assert (os.environ["TFMP_ONE"], os.environ["TFMP_TWO"]) == ("now", "now")
    assert (os.environ["TFMP_ONE"], os.environ.get("TFMP_TWO")) == ("before", None)

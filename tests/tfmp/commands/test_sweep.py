"""`tfmp sweep`: sizes in, tables, JSON and pages out; clear words for the rest."""

import json

import click
import pytest
from click.testing import CliRunner

from tfmp.commands.cli import main
from tfmp.commands.options import parse_sizes
from tfmp.machine.devices import CPU
from tfmp.profiling import sweep
from tfmp.profiling.sweep import look, measure

FAST = ("--rounds", "1", "--steps", "1", "--batch-sizes", "2,4", "--mode", "train")


@pytest.fixture(autouse=True)
def calls_in_place_of_processes(monkeypatch) -> None:
    def call(function, *arguments, memory_limit, variables):
        return CPU if function is look else measure(*arguments)

    monkeypatch.setattr(sweep, "call_apart", call)


def run(*arguments: str):
    return CliRunner().invoke(main, ["sweep", *arguments])


def test_a_file_is_loaded_where_it_is_measured(model, tmp_path):
    arguments = (model, "--data", "d.npz", *FAST, "--policy", "float32", "--json")
    result = run(*arguments, "--report", "s.html")
    assert result.exit_code == 0, result.output
    assert [row["batch_size"] for row in json.loads(result.stdout)["rows"]] == [2, 4]
    assert (tmp_path / "s.html").read_bytes().startswith(b"<!doctype html>")
    result = run(*arguments, "--report", "s.html")
    assert (result.exit_code, "'s.html' exists. Pass --force" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--data", "d.npz", "--batch-sizes", "8;9"), "such as 8,32,128, received '8;9'"),
        (("--data", "d.npz", "--batch-sizes", "0,9"), "whole numbers above 0"),
        (("--data", "d.npz", "--memory-limit", "much"), "such as 2GiB or 512MiB, received 'much'"),
        (("--data", "d.npz", "--report", "s.md"), "suffixes .json, .html; received 's.md'"),
    ],
)
def test_bad_input_is_one_message_and_status_2(model, arguments, message):
    result = run(model, *arguments)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stdout == ""


def test_sizes_of_an_option():
    assert parse_sizes(None, None, "8, 32,128") == (8, 32, 128)
    with pytest.raises(click.BadParameter, match="expected whole numbers above 0"):
        parse_sizes(None, None, "9" * 5000)

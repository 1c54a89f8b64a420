"""`tfmp compare`: its files, its status and its errors."""

import json

import pytest
from click.testing import CliRunner
from repository import SUPPORT

from tfmp.commands.cli import main
from tfmp.experiment import TASKS

TINY = f"{SUPPORT / 'tiny_task.py'}:task"


def run(*arguments: object):
    return CliRunner().invoke(main, ["compare", *map(str, arguments)])


@pytest.mark.slow
def test_a_report_in_each_form(tmp_path):
    reports = [tmp_path / f"r{suffix}" for suffix in (".html", ".json", ".md")]
    options = [option for path in reports for option in ("--report", path)]
    done = run(TINY, "--arms", "float32", "--seeds", 1, "--folder", tmp_path / "runs", *options)
    assert done.exit_code == 0, done.output
    assert "No file was made" in done.stdout
    assert all(path.stat().st_size for path in reports)
    again = run(TINY, "--arms", "float32", "--seeds", 1, "--folder", tmp_path / "runs", "--json")
    assert json.loads(again.stdout)["runs"] == json.loads(reports[1].read_text())["runs"]


def test_an_example_can_be_written_and_is_kept(tmp_path):
    path = tmp_path / "mine.py"
    done = run("--init", path)
    assert done.exit_code == 0
    assert f"tfmp compare {path}:task" in done.stdout
    assert "tfmp compare mine.py:task" in path.read_text()
    assert run("--init", path).exit_code == 2
    assert run("--init", path, "--force").exit_code == 0
    link = tmp_path / "link.py"
    link.symlink_to(tmp_path / "nothing")
    assert "exists. Pass --force" in run("--init", link).stderr
    assert run("--init", tmp_path / "mine.txt").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected a TASK: one of digits"),
        (["digits", "--arms", "fp16"], "received 'fp16'"),
        (["digits", "--report", "r.txt"], "received 'r.txt'"),
        (["nothing"], "received 'nothing'"),
    ],
)
def test_mistakes_end_with_status_2(arguments, message, tmp_path):
    done = run(*arguments, *(["--folder", tmp_path] if arguments else []))
    assert done.exit_code == 2
    assert message in done.stderr


def test_the_help_names_every_task():
    text = run("--help").stdout
    assert all(name in text for name in TASKS)
    assert " each runs apart from " in " ".join(text.splitlines())

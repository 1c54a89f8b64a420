"""`tfmp colocate`: a function in, tables or JSON out, and mode "processes" for real."""

import json
from dataclasses import replace
from pathlib import Path

import colocated_jobs
import ctrl_c
import numpy as np
import pytest
from click.testing import CliRunner

from tfmp import Job, colocate
from tfmp.colocation.modes import run_in_process
from tfmp.commands.cli import main


def run(*arguments: str):
    return CliRunner().invoke(main, ["colocate", *arguments])


@pytest.fixture
def two_jobs():
    """A module of a user's, in the folder in which the command runs."""
    Path("jobs_of_test.py").write_text(
        "from colocated_jobs import *\n"
        "def two():\n"
        "    return jobs()[2:]\n"
        "def one_breaks():\n"
        "    return [jobs()[2], tfmp.Job(broken, (X, Y), name='broken')]\n"
        "def not_jobs():\n"
        "    return [small]\n"
        "def raises():\n"
        "    raise OSError('no data')\n"
    )


def test_one_json_document(two_jobs):
    result = run(
        "jobs_of_test:two", "--mode", "threads", "--measure-steps", "0", "--json", "--quiet"
    )
    assert result.stderr == ""
    document = json.loads(result.stdout)
    assert (document["schema"], document["mode"]) == ("tfmp.colocate/2", "threads")
    assert [job["steps"] for job in document["run"]["jobs"]] == [8, 6]
    assert document["measured"] == []


def test_a_job_that_ends_early_is_status_1(two_jobs):
    result = run("jobs_of_test:one_breaks", "--mode", "sequential", "--measure-steps", "0")
    assert result.exit_code == 1
    assert "broken ended early: RuntimeError: no such architecture" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("jobs_of_test",), "which returns a list of tfmp.Job; received 'jobs_of_test'."),
        (("jobs_of_test:nothing",), "cannot be imported: AttributeError"),
        (("jobs_of_test:not_jobs",), "one of its items is <function small"),
        (("jobs_of_test:two", "--measure-steps", "0"), "'auto' chooses by measuring"),
    ],
)
def test_bad_input_is_one_message_and_status_2(two_jobs, arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.stderr.split())
    assert result.stdout == ""


@pytest.mark.slow
def test_jobs_in_processes_end_as_alone_and_fail_alone():
    """The same weights, with Ctrl-C left to the parent; a limit that one hits; one killed."""
    half, data = colocated_jobs.jobs()[2], (colocated_jobs.X, colocated_jobs.X)
    found = [
        replace(half, callbacks=colocated_jobs.interrupting),
        Job(colocated_jobs.huge, data, name="huge"),
        Job(colocated_jobs.killed, data, name="killed"),
    ]
    told = []
    with ctrl_c.heard():
        report = colocate(
            found,
            "processes",
            measure_steps=0,
            memory_limit=2**32,  # threads' stacks count, and a large machine has many
            progress=lambda *news: told.append(news),
        )
    expected = run_in_process("sequential", [half]).jobs[0]
    assert report["half"].error == ""
    assert report["half"].history == expected.history
    for one, two in zip(report["half"].weights, expected.weights, strict=True):
        np.testing.assert_array_equal(one, two)
    assert report["half"].model is None
    assert [job.name for job in report.failed] == ["huge", "killed"]
    assert report["killed"].error == (
        "its process was ended by SIGKILL, as the system does where memory runs out; it may use "
        "4 GiB: pass a higher memory_limit"
    )
    assert report["huge"].out_of_memory
    assert report["huge"].error.startswith("out of memory: ")
    assert ("half", 8, 8) in told
    assert report.run is not None
    assert report.run.memory is not None
    assert report.run.memory.bytes > 0

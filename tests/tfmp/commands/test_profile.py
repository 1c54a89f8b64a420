"""`tfmp profile`: a file or a function in, tables, JSON and pages out; clear words for the rest."""

import json

import click
import pytest
from click.testing import CliRunner

from tfmp.commands.cli import main
from tfmp.commands.options import parse_bytes
from tfmp.machine.devices import CPU
from tfmp.machine.measuring import Timing
from tfmp.precision.tensor_cores import TensorCorePath
from tfmp.profiling.layers import LayerCost, LayerProfile
from tfmp.profiling.report import ProfileReport
from tfmp.profiling.steps import StepProfile
from tfmp.shared.backend import current_backend
from tfmp.shared.packages import processor_name

FAST = ("--rounds", "1", "--steps", "1", "--no-layers", "--no-roofline", "--batch-size", "4")


def run(*arguments: str):
    return CliRunner().invoke(main, ["profile", *arguments])


@pytest.mark.slow
def test_a_table_and_an_answer(model):
    result = run(model, "--data", "d.npz", "--rounds", "1", "--steps", "1")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Too few rounds to say whether mixed_float16 is worth it on")
    assert "Tensor Cores" in result.stdout
    assert "steps and the roofline:" in result.stdout


def test_one_json_document_and_the_options(model):
    result = run(model, "--data", "d.npz", "--json", *FAST, "--policy", "mixed_bfloat16")
    document = json.loads(result.stdout)
    assert [row["policy"] for row in document["variants"]] == ["mixed_bfloat16"]
    assert document["variants"][0]["batch_size"] == 4
    assert (document["rounds"], document["steps_per_round"], document["layers"]) == (1, 1, [])


@pytest.mark.parametrize(
    ("seconds", "cores", "times", "status"),
    [
        ([0.01], True, 1, 0),
        ([0.02, 0.01], True, 2, 0),  # somebody else was busy
        ([0.02, 0.02, 0.02], True, 3, 1),
        ([0.02], False, 1, 1),  # no noise takes a path away
    ],
)
def test_a_slower_step_is_measured_again(model, monkeypatch, seconds, cores, times, status):
    def report(each: float, cores: bool = True) -> ProfileReport:
        row = StepProfile("float32", "float32", Timing((each,) * 10), 32)
        cost = LayerCost("float16", 0.01, 1.0, TensorCorePath(cores, "" if cores else "other"))
        layer = LayerProfile("dense", "Dense", 1, {"float32": cost})
        here = {"processor": processor_name()}
        return ProfileReport("net", CPU, current_backend().name, here, 10, 5, (row,), (layer,))

    report(0.01).save("base.json")
    measured = [report(each, cores) for each in seconds]
    calls = []
    monkeypatch.setattr(
        "tfmp.profiling.profile_training", lambda *_, **__: calls.append(1) or measured.pop(0)
    )
    result = run(model, "--data", "d.npz", "--against", "base.json", "--policy", "float32")
    assert (len(calls), result.exit_code) == (times, status), result.output


@pytest.mark.slow
def test_a_baseline_is_kept_compared_with_and_not_overwritten(model, tmp_path):
    quick = ("--rounds", "6", "--steps", "1", "--batch-size", "4", "--policy", "mixed_float16")
    arguments = (model, "--data", "d.npz", *quick, "--no-roofline")
    assert run(*arguments, "--save", "base.json").exit_code == 0
    result = run(*arguments, "--save", "base.json")
    assert (result.exit_code, "'base.json' exists. Pass --force" in result.stderr) == (2, True)
    # As wide as noise can be: other tests may share the cores.
    result = run(*arguments, "--against", "base.json", "--tolerance", "20")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == "Not worse than base.json, within 2000%"
    base = json.loads((tmp_path / "base.json").read_text())
    step = base["variants"][0]["step"]
    step["seconds"] = [value / 1000 for value in step["seconds"]]
    (tmp_path / "base.json").write_text(json.dumps(base))
    result = run(*arguments, "--against", "base.json", "--json", "--tolerance", "20")
    assert result.exit_code == 1
    found = json.loads(result.stdout)["against"]
    assert found["answer"] == "Worse than base.json: step time of mixed_float16"
    kept = ("--keep-float32", ".*", "--tolerance", "1e9")
    result = run(*arguments, "--against", "base.json", *kept)
    assert (result.exit_code, "lost their path" in result.stdout) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--data", "d.npz", "--report", "p.txt"), "suffixes .json, .html; received 'p.txt'"),
        (("--data", "d.npz", "--keep-float32", "nowhere"), "nowhere"),
        (("--data", "d.npz", "--against", "no.json"), "received 'no.json': No such file"),
        (("--data", "d.npz", "--against", "m.keras"), "'m.keras' is no whole JSON document"),
        (("--data", "d.npz", "--tolerance", "0.1"), "of --against: give both options, or leave"),
        (("--data", "d.npz", "--log-dir", "m.keras/logs"), "expects a folder that can be written"),
    ],
)
def test_bad_input_is_one_message_and_status_2(model, arguments, message):
    result = run(model, *arguments)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("text", "count"),
    [("2GiB", 2**31), ("512MB", 2**29), ("1.5k", 1536), ("4096", 4096), (None, None)],
)
def test_amounts_of_memory(text, count):
    assert parse_bytes(None, None, text) == count


@pytest.mark.parametrize("text", ["0", "9" * 400 + "g", "-1"])
def test_amounts_that_no_computer_has(text):
    with pytest.raises(click.BadParameter, match="expected an amount of memory above 0"):
        parse_bytes(None, None, text)

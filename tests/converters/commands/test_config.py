"""--config and --save-config: options from and to TOML files."""

import json
import tomllib
from dataclasses import dataclass

import keras_models
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings, strategies
from mutations import mutated

from tfmp.converters.commands.cli import main
from tfmp.converters.commands.config import to_toml, with_own_options


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path


def tfmp_convert(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def read(folder, text: str, *arguments: str) -> dict:
    """What the command `onnx` understands from a config file and arguments."""
    (folder / "c.toml").write_text(text)
    with main.make_context("tfmp-convert", ["onnx"], resilient_parsing=True) as parent:
        command = main.commands["onnx"]
        context = command.make_context("onnx", ["m", "--config", "c.toml", *arguments], parent)
        return context.params


@dataclass(frozen=True)
class Judged:
    """What a candidate's report, or the report of several, has of a remedy."""

    format: str = ""
    remedy_flags: str | None = None
    candidates: tuple["Judged", ...] = ()


def test_a_remedy_keeps_the_options_of_the_run(folder):
    """Not those that it replaces, that another format lacks, or that are this run's alone."""
    given = [
        *("--precision", "fp16", "--batch", "8", "--input-shape", "image=1,2 2", "--force"),
        *("--opset", "17", "--report", "a.html", "--unsafe-load", "-o", "x", "--data", "d.npz"),
    ]
    ways = (("onnx", "--precision mixed"), ("tflite", "--repair"), ("onnx", None))
    found = Judged(candidates=tuple(Judged(*way) for way in ways))
    with main.make_context("tfmp-convert", ["onnx"], resilient_parsing=True) as parent:
        context = main.commands["onnx"].make_context("onnx", ["m", *given], parent)
        kept = [each.remedy_flags for each in with_own_options(found, context).candidates]
    own = "--batch 8 --input-shape 'image=1,2 2' --unsafe-load"
    assert kept == [
        f"--opset 17 {own} --precision mixed",
        f"--precision fp16 {own} --repair",
        None,
    ]


def test_the_top_is_for_all_commands_a_table_for_one_and_the_command_line_goes_first(folder):
    text = """
    force = true
    opset = 15
    dynamic = true
    budget = "rel_l2=0.1"
    [onnx]
    opset = 17
    keep-fp32 = ["a", "b"]
    [report]
    budget = "rel_l2=0.2"
    [tflite]
    accumulate = "fp16"
    """
    options = read(folder, text)
    assert options["force"] is True
    assert options["opset"] == 17
    assert options["keep_fp32"] == ("a", "b")
    assert options["budget"] == ("rel_l2=0.1",)
    assert "dynamic" not in options
    assert read(folder, text, "--opset", "18", "--keep-fp32", "c")["opset"] == 18
    assert read(folder, text, "--keep-fp32", "c")["keep_fp32"] == ("c",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "speed = 3",
            "--config c.toml: speed is no option; expected one of accumulate, accuracy-drop, allow",
        ),
        (
            "[onnx]\ndynamic = true",
            "[onnx] dynamic is no option; expected one of architecture, batch",
        ),
        (
            "[onxx]\nforce = true",
            "--config c.toml: [onxx] is no command; expected one of onnx, tflite, all, validate",
        ),
        ("onnx = 3", "--config c.toml: onnx is no option"),
        ("opset = '17'", "opset is '17' (str); expected a whole number"),
        ("force = 1", "force is 1 (int); expected true or false"),
        ("report = [1]", "report is [1] (list); expected a text or a list of texts"),
        ("data = 3", "data is 3 (int); expected a text"),
        ('data = "a\\u0000b"', "data is 'a\\x00b' (str); expected a text without NUL characters"),
        ('report = ["a\\u0000b"]', "(list); expected a text or a list of texts, without NUL"),
        ("report = " + "[" * 3000 + "]" * 3000, "cannot be read as TOML (maximum recursion"),
        ("precision = 'int8'", "Invalid value for '--precision': 'int8' is not one of 'fp16'"),
        ("opset =", "(at end of document)). --save-config writes"),
    ],
)
def test_a_mistake_in_the_file_is_one_message_and_exit_2(folder, text, message):
    (folder / "c.toml").write_text(text)
    result = tfmp_convert("onnx", "m.keras", "--config", "c.toml")
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_a_failed_run_saves_nothing(folder):
    result = tfmp_convert("onnx", "m.keras", "--config", "no.toml")
    assert result.exit_code == 2
    assert "--config no.toml: cannot be read as TOML (No such file or directory)" in result.stderr
    result = tfmp_convert("onnx", "missing.keras", "--save-config", "new.toml")
    assert result.exit_code == 2
    assert not (folder / "new.toml").exists()


def test_what_was_given_is_saved_and_gives_the_same_file_again(folder):
    keras_models.dense().save("dense.keras")
    first = tfmp_convert(
        "onnx", "dense.keras", "-o", "x.onnx", "--opset", "17", "--keep-fp32", "scores",
        "--save-config", "saved.toml", "--json",
    )  # fmt: skip
    assert first.exit_code == 0, first.output
    saved = tomllib.loads((folder / "saved.toml").read_text())
    assert saved == {
        "onnx": {"output": "x.onnx", "opset": 17, "keep-fp32": ["scores"], "json": True}
    }
    second = tfmp_convert("onnx", "dense.keras", "--config", "saved.toml", "--force")
    assert second.exit_code == 0, second.output
    assert json.loads(second.stdout)["artifacts"] == json.loads(first.stdout)["artifacts"]


@pytest.mark.parametrize(
    ("name", "message"),
    [("saved.txt", "expected an output file ending in .toml"), ("s.toml", "already exists")],
)
def test_save_config_checks_its_path_before_work(folder, name, message):
    (folder / "s.toml").write_text("precious")
    result = tfmp_convert("onnx", "missing.keras", "--save-config", name)
    assert result.exit_code == 2
    assert message in result.stderr
    assert (folder / "s.toml").read_text() == "precious"


def test_toml_reads_back_whatever_it_holds():
    options = {"data": 'a "b" \\ \x7f\n é 😀', "force": True, "batch": 3, "budget": ("x=1", "y")}
    assert tomllib.loads(to_toml("all", options)) == {"all": {**options, "budget": ["x=1", "y"]}}


TOML = b'quiet = true\nconfidence = "0.95"\nreport = ["a.json"]\n[plan]\nsamples = 300\n'


@settings(derandomize=True, max_examples=150, deadline=None)
@given(seed=strategies.integers(0, 2**32))
def test_damage_is_told_in_one_sentence(tmp_path_factory, seed: int):
    path = tmp_path_factory.getbasetemp() / "damaged.toml"
    path.write_bytes(mutated(TOML, seed))
    result = tfmp_convert("plan", "--config", str(path))
    assert result.exit_code in (0, 2), result.output
    assert "Traceback" not in result.output
    assert "\x1b" not in result.output

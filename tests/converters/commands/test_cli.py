"""`tfmp-convert` as a person or a script meets it: output, messages, exit statuses."""

import contextlib
import json
import os
import shutil
import subprocess
import sys

import keras_models
import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result

from tfmp.converters import convert
from tfmp.converters.commands.cli import main
from tfmp.converters.onnx.format import OnnxFormat
from tfmp.converters.tflite.file.reader import TFLiteModel
from tfmp.converters.tflite.format import TFLiteFormat


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    model = keras_models.dense()
    model.save(folder / "dense.keras")
    x = np.random.default_rng(0).standard_normal((400, 6), dtype=np.float32)
    labels = np.argmax(model.predict(x, verbose=0), -1)
    np.savez(folder / "good.npz", features=x, labels=labels)
    np.savez(folder / "few.npz", features=x[:10])
    np.savez(folder / "narrow.npz", features=x[:, :5])
    (folder / "drift.json").write_text("{}")
    convert(model, output=folder / "half.onnx")
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """A working directory with a model and samples for it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def tfmp_convert(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_a_refusal_is_json_in_its_parts(folder):
    (folder / "pointer.h5").write_text("version https://git-lfs.github.com/spec/v1\n")
    result = tfmp_convert("onnx", "pointer.h5", "--json")
    assert result.exit_code == 2
    refusal = json.loads(result.stdout)["refusal"]
    assert refusal["where"] == "pointer.h5"
    assert refusal["remedy"].startswith("Download it with `git lfs pull --include='pointer.h5'`")
    assert f"Error: pointer.h5: {refusal['what']}" in result.stderr


def test_all_converts_and_validates_both_and_prints_one_json_document(folder):
    result = tfmp_convert("all", "dense.keras", "-o", ".", "--data", "good.npz", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["verdict"] == "PASS"
    assert [a["format"] for a in document["artifacts"]] == ["onnx", "tflite"]
    assert [c["name"] for c in document["candidates"]] == ["dense.onnx", "dense.tflite"]


def test_a_folder_is_an_output_for_one_file_too(folder):
    for number, into in enumerate(("made/", ".")):
        result = tfmp_convert("onnx", "dense.keras", "-o", into)
        assert result.exit_code == 0, (number, result.output)
    assert (folder / "made" / "dense.onnx").is_file()
    assert (folder / "dense.onnx").is_file()


@pytest.mark.slow
def test_a_tflite_file_takes_the_batch_and_the_sums_that_were_asked_for(folder):
    result = tfmp_convert("tflite", "dense.keras", "--dynamic", "--accumulate", "fp16")
    assert result.exit_code == 0, result.output
    assert "allows FP16 sums" in result.stdout
    assert TFLiteModel(folder / "dense.tflite").signature().batch_size is None
    assert tfmp_convert("tflite", "dense.keras", "--batch", "3", "--force").exit_code == 0
    assert TFLiteModel(folder / "dense.tflite").signature().batch_size == 3


def test_inspect_shows_ranges_with_data_and_admits_to_know_nothing_without(folder):
    result = tfmp_convert("inspect", "dense.keras", "--data", "good.npz", "--report", "audit.html")
    assert result.exit_code == 0, result.output
    assert "Headroom" in result.stdout
    assert "on 400 samples" in result.stdout
    assert (folder / "audit.html").exists()
    result = tfmp_convert("inspect", "dense.keras", "--json")
    assert "no samples were run" in json.loads(result.stdout)["unknown"][0]
    np.savez("nan.npz", features=np.full((9, 6), np.nan, np.float32))
    result = tfmp_convert("inspect", "dense.keras", "--data", "nan.npz", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["unknown"][0] == (
        "input 'features' holds 54 values that are NaN or infinite; the data may be "
        "the cause of values behind it that are not finite"
    )


def test_onnx_with_data_prints_the_drift_and_exits_0(folder):
    result = tfmp_convert("onnx", "dense.keras", "-o", "plain.onnx")
    assert result.exit_code == 0
    assert "Not validated" in result.stdout
    assert "  inputs features: float32[?, 6], outputs " in result.stdout
    result = tfmp_convert("onnx", "dense.keras", "--data", "good.npz", "--report", "drift.html")
    assert result.exit_code == 0, result.output
    assert "PASS" in result.stdout
    assert (folder / "dense.onnx").exists()
    assert "<html" in (folder / "drift.html").read_text()


def test_validate_without_data_makes_inputs_up_and_certifies_nothing(folder):
    result = tfmp_convert("validate", "dense.keras", "half.onnx", "--json")
    assert result.exit_code == 3, result.output
    document = json.loads(result.stdout)
    assert document["data"]["synthetic"]
    assert document["verdict"] == "INCONCLUSIVE"
    broken = tfmp_convert("validate", "dense.keras", "half.onnx", "--budget", "rel_l2=1e-9")
    assert broken.exit_code == 1


@pytest.fixture(scope="module")
def reports(made):
    """Two reports of the same file on different samples, too few each.

    Cut between batches of 32: a model may answer a sample differently in a batch of another size.
    """
    with np.load(made / "good.npz") as data:
        x, labels = data["features"], data["labels"]
    with contextlib.chdir(made):
        for name, part in (("one", slice(160)), ("two", slice(160, None))):
            np.savez(f"{name}.npz", features=x[part], labels=labels[part])
            options = ("--data", f"{name}.npz", "--report", f"{name}.json")
            assert tfmp_convert("validate", "dense.keras", "half.onnx", *options).exit_code == 3


@pytest.fixture
def shards(reports, folder) -> list[str]:
    return ["one.json", "two.json"]


def test_report_merges_shards_into_what_one_run_would_have_said(folder, shards):
    result = tfmp_convert("report", *shards, "--json", "--report", "both.md")
    assert result.exit_code == 0, result.output
    merged = json.loads(result.stdout)
    assert "PASS" in (folder / "both.md").read_text()
    files = ("dense.keras", "half.onnx")
    whole = tfmp_convert("validate", *files, "--data", "good.npz", "--json")
    expected = json.loads(whole.stdout)
    assert merged["candidates"] == expected["candidates"]
    assert merged["data"]["sha256"] == expected["data"]["sha256"]


def test_report_judges_again_under_another_budget(folder, shards):
    strict = tfmp_convert("report", *shards, "--budget", "rel_l2=1e-9", "--json")
    assert strict.exit_code == 1
    assert json.loads(strict.stdout)["budget"]["flip_rate"] == 0.01
    loosened = ("--budget", "flip_rate=0.1", "--budget", "accuracy_drop=0.1")
    loose = tfmp_convert("report", "one.json", *loosened)
    assert loose.exit_code == 0, loose.output
    twice = tfmp_convert("report", "one.json", "one.json")
    assert twice.exit_code == 2
    assert "they would count twice" in twice.stderr


def test_an_existing_file_is_kept_without_force(folder):
    (folder / "drift.md").write_text("precious")
    arguments = ("onnx", "dense.keras", "--data", "good.npz", "--report", "drift.md", "-q")
    result = tfmp_convert(*arguments)
    assert result.exit_code == 2
    assert "drift.md: already exists" in result.stderr
    assert not (folder / "dense.onnx").exists()
    assert tfmp_convert(*arguments, "--force").exit_code == 0
    assert "PASS" in (folder / "drift.md").read_text()
    (folder / "dense.onnx").write_text("precious")
    result = tfmp_convert("onnx", "dense.keras")
    assert result.exit_code == 2
    assert "already exists" in result.stderr
    assert (folder / "dense.onnx").read_text() == "precious"
    forced = tfmp_convert("onnx", "dense.keras", "--force", "--quiet")
    assert (forced.exit_code, forced.output) == (0, "")
    assert (folder / "dense.onnx").read_bytes()[:3] != b"pre"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("onnx missing.keras", "missing.keras: no such file"),
        ("onnx dense.keras -o no/such.onnx --keep-fp32 zzz", "'zzz' matches no node name"),
        ("onnx dense.keras --report x.html", "report (--report) needs samples"),
        ("onnx dense.keras --data good.npz --report x.pdf", "'.pdf'"),
        ("onnx dense.keras --data good.npz --budget speed=3", "'speed=3' names no limit"),
        ("onnx dense.keras --task classes=ids", "tasks (--task) needs samples"),
        (
            "onnx dense.keras --data good.npz --task y=ids --task y=other",
            "--task 'y=other': 'y' has a task already. Give one.",
        ),
        ("onnx dense.keras --state h=a --state h=b", "'h=b': 'h' was given already. Give it once."),
        ("validate dense.keras . --data good.npz", "received suffix ''. Name the"),
        ("report drift.json --report drift.json", "drift.json: already exists"),
        ("report drift.json --report ./drift.json --force", "this command reads this file. Name"),
        ("onnx dense.keras --data good.npz --report a.md --report ./a.md", "a.md: is given twice"),
        ("inspect dense.keras --report audit.md", "expected one of .json, .html."),
        ("inspect m.keras --report a.json --report ./a.json", "given twice. Name"),
        (
            "onnx dense.keras --reproduce shown --data few.npz",
            "--reproduce saves the error that --explain finds: give --explain, too.",
        ),
        (
            "onnx dense.keras --explain --reproduce few.npz/shown --data few.npz",
            "can be written to; received 'few.npz/shown': Not a directory. Choose another folder.",
        ),
        ("onnx dense.keras --explain", "explain (--explain) needs samples to compare on, and "),
    ],
)
def test_a_mistake_is_one_message_exit_2_and_leaves_nothing(folder, arguments, message):
    before = sorted(os.listdir())
    result = tfmp_convert(*arguments.split())
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        ("tflite", ["--device", "gpu"], "expected a GPU for 'gpu', but none is here. Use device "),
        ("onnx", ["--labels", "far.npy"], "hold class id 7, but the output has 3 classes: ids 0 "),
    ],
)
def test_what_cannot_be_compared_is_told_before_anything_is_converted(
    folder, monkeypatch, command, arguments, message
):
    for kind in (OnnxFormat, TFLiteFormat):
        monkeypatch.setattr(kind, "gpu_problem", lambda self, asked=True: "none is here")
    np.save("far.npy", np.full(10, 7))
    result = tfmp_convert(command, "dense.keras", "--data", "few.npz", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (folder / f"dense.{command}").exists()


def test_a_mistake_late_in_the_data_is_told_with_what_was_converted_before(folder):
    (folder / "late.py").write_text(
        "import numpy as np\ndef data():\n    yield np.zeros((9, 6), np.float32)\n    yield 3\n"
    )
    result = tfmp_convert("onnx", "dense.keras", "--data", "late:data")
    assert result.exit_code == 2
    assert "received int64 of shape (). " in result.stderr
    assert result.stderr.endswith(" Converted before that, complete and kept: dense.onnx.\n")
    onnx.checker.check_model("dense.onnx", full_check=True)


@pytest.mark.parametrize("command", sorted(main.commands))
def test_every_option_is_explained_and_a_help_is_read_at_a_glance(command: str):
    for parameter in main.commands[command].params:
        if parameter.param_type_name == "option":
            assert parameter.help, f"{command} {parameter.opts} has no help"
    assert main.commands[command].help
    assert len(tfmp_convert(command, "--help").stdout.splitlines()) <= 100, "no more is read"


def test_the_installed_command_keeps_stdout_for_results(folder):
    """Without a word of the frameworks, which only TF_CPP_MIN_LOG_LEVEL keeps quiet otherwise."""
    program = os.path.join(os.path.dirname(sys.executable), "tfmp-convert")
    environment = {name: v for name, v in os.environ.items() if not name.startswith("TF_CPP")}
    run = subprocess.run(
        [program, "onnx", "dense.keras", "--json"],
        capture_output=True, text=True, env=environment,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["artifacts"][0]["path"] == "dense.onnx"
    assert run.stderr == ""


def program(*arguments: str, **options) -> subprocess.Popen[str]:
    path = os.path.join(os.path.dirname(sys.executable), "tfmp-convert")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([path, *arguments], **pipes, **options)


def test_the_reader_of_a_report(folder, shards):
    with program("report", "one.json") as run:
        run.stdout.close()
        assert run.stderr.read() == ""
    assert run.returncode == 3
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    with program("report", "one.json", "--budget", "rel_l2=1e-9", env=ascii_only) as run:
        assert "\\u2717 FAIL" in run.stdout.read()
        assert run.stderr.read() == ""
    assert run.returncode == 1


def test_explain_names_a_layer_and_saves_its_node_beside_the_report(folder):
    command = ("validate", "dense.keras", "half.onnx", "--data", "good.npz", "--explain")
    result = tfmp_convert(*command, "--report", "drift.html")
    assert result.exit_code == 0, result.output
    assert "adds most drift: the error grows from" in " ".join(result.stdout.split())
    saved = folder / "drift.reproduce" / "half.onnx"
    assert sorted(path.name for path in saved.iterdir()) == [
        "expected.npz",
        "inputs.npz",
        "node.onnx",
        "reproduce.py",
    ]
    assert "error by layer" in (folder / "drift.html").read_text()
    again = tfmp_convert(*command, "--reproduce", "drift.reproduce")
    assert (again.exit_code, again.stderr) == (
        2,
        "Error: drift.reproduce: is not empty. Choose another folder with --reproduce, or replace "
        "its files with --force.\n",
    )
    document = tfmp_convert(*command, "--reproduce", "drift.reproduce", "--force", "--json")
    (candidate,) = json.loads(document.stdout)["candidates"]
    assert candidate["explanation"]["culprit"]["folder"] == "drift.reproduce/half.onnx"


@pytest.mark.parametrize("plain", [True, False])
def test_color_is_for_terminals_that_want_it(folder, shards, monkeypatch, plain):
    """FORCE_COLOR makes the pipe of a test count as a terminal, until NO_COLOR overrules it."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    if not plain:
        monkeypatch.delenv("NO_COLOR")
        monkeypatch.setenv("TERM", "xterm-256color")
    shown = tfmp_convert("report", shards[0]).output
    assert ("\x1b[1;3" in shown) is not plain

"""`tfmp`: commands load lazily, answer in text or JSON, and exit with their status."""

import json
import subprocess
import sys

import keras
import pytest
from click.testing import CliRunner

from tfmp.cli import main


def run(*arguments):
    return CliRunner().invoke(main, arguments)


def test_help_lists_every_command_without_loading_any():
    result = run("--help")
    assert result.exit_code == 0
    assert "doctor" in result.stdout
    script = (
        "from tfmp.cli import main\n"
        "import sys\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'tensorflow', 'keras', 'numpy', 'rich', 'tfmp.checkup'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", sorted(main.list_commands(None)))
def test_every_command_exists_and_has_help(name):
    result = run(name, "--help")
    assert result.exit_code == 0
    assert "Exit status" in result.stdout


def test_an_unknown_command_is_bad_usage():
    result = run("docter")
    assert result.exit_code == 2
    assert "No such command 'docter'" in result.stderr


def test_doctor_prints_one_line_a_finding():
    result = run("doctor")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0].split() == ["status", "check", "found"]
    assert "CPU only: policy='auto' trains in float32" in result.stdout


def test_doctor_prints_one_json_document():
    result = run("doctor", "--json")
    document = json.loads(result.stdout)
    assert document["healthy"] is True
    assert {"check", "status", "message", "mend"} == set(document["diagnoses"][0])


def test_doctor_exits_with_1_on_a_problem(monkeypatch):
    from tfmp import checkup
    from tfmp.machine import Machine

    sick = Machine(packages={"onnxruntime": "1.26.0", "onnxruntime-gpu": "1.26.0"})
    monkeypatch.setattr(checkup, "read_machine", lambda: sick)
    result = run("doctor")
    assert result.exit_code == 1
    assert "problem" in result.stdout


def test_doctor_reads_a_model(tmp_path):
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    model.save(tmp_path / "model.keras")
    result = run("doctor", str(tmp_path / "model.keras"))
    assert "2 layers, 1 of them float32 under mixed_float16" in result.stdout


def test_a_model_that_cannot_be_read_is_bad_input(tmp_path):
    (tmp_path / "broken.keras").write_text("no model")
    for path in (tmp_path / "broken.keras", tmp_path / "missing.keras"):
        result = run("doctor", str(path))
        assert result.exit_code == 2
        assert f"MODEL expects a Keras model file (.keras or .h5), received '{path}'" in " ".join(
            result.stderr.split()
        )
        assert "model.save('model.keras')" in result.stderr
        assert "Traceback" not in result.stderr


def test_the_version_is_the_packages():
    from importlib.metadata import version

    assert version("tfmp") in run("--version").stdout

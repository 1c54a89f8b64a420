"""`tfmp`: commands load lazily, answer in text or JSON, and exit with their status."""

import json
import subprocess
import sys

import keras
import pytest
from click.testing import CliRunner

from tfmp.commands.cli import main
from tfmp.commands.inputs import load_model


def run(*arguments):
    return CliRunner().invoke(main, arguments)


def test_help_lists_every_command_without_loading_any():
    result = run("--help")
    assert result.exit_code == 0
    assert "doctor" in result.stdout
    script = (
        "from tfmp.commands.cli import main\n"
        "import sys\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'tensorflow', 'keras', 'numpy', 'rich', 'tfmp.checkup.checks'}\n"
        "heavy &= set(sys.modules)\n"
        "for name in main.list_commands(None): main.get_command(None, name)\n"
        "heavy |= {'tensorflow', 'keras'} & set(sys.modules)  # they greet, and take seconds\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", sorted(main.list_commands(None)))
def test_every_command_exists_and_has_help(name):
    result = run(name, "--help")
    assert result.exit_code == 0
    assert "Exit status" in result.stdout


def test_doctor_prints_lines_and_json():
    result = run("doctor")
    assert result.exit_code == 0
    assert result.stdout.startswith("This machine has no problem")
    assert "CPU only: policy='auto' trains in float32" in result.stdout
    result = run("doctor", "--json")
    document = json.loads(result.stdout)
    assert document["healthy"] is True
    assert {"check", "status", "message", "fix"} == set(document["diagnoses"][0])


def test_doctor_exits_with_1_on_a_problem(monkeypatch):
    from tfmp.checkup import checks
    from tfmp.machine.facts import Machine

    sick = Machine(packages={"onnxruntime": "1.26.0", "onnxruntime-gpu": "1.26.0"})
    monkeypatch.setattr(checks, "read_machine", lambda: sick)
    result = run("doctor")
    assert result.exit_code == 1
    assert "problem" in result.stdout


def test_doctor_reads_a_model(model):
    assert "3 layers, 1 of them float32 under mixed_float16" in run("doctor", model).stdout


def test_a_model_that_cannot_be_read_is_bad_input(tmp_path):
    (tmp_path / "broken.keras").write_text("no model")
    for path in (tmp_path / "broken.keras", tmp_path / "missing.keras"):
        result = run("doctor", str(path))
        assert result.exit_code == 2
        told = " ".join(result.stderr.split())
        assert f"MODEL '{path}': " in told
        assert "Expected a Keras model file (.keras or .h5)" in told
        assert "model.save('model.keras')" in result.stderr
        assert "Traceback" not in result.stderr


def test_doctor_builds_a_model_by_a_function(tmp_path):
    (tmp_path / "models_of_test.py").write_text(
        "import keras\n"
        "def build():\n"
        "    dense = [keras.layers.Dense(2), keras.layers.Dense(2)]\n"
        "    return keras.Sequential([keras.Input((4,)), *dense])\n"
        "def breaks():\n"
        "    raise OSError('no weights here')\n"
        "def other():\n"
        "    return 5\n"
        "def unbuilt():\n"
        "    return keras.Sequential([keras.layers.Dense(2)])\n"
    )
    result = run("doctor", "models_of_test:build")
    assert "3 layers, 1 of them float32 under mixed_float16" in result.stdout
    for name, message in (
        ("breaks", "cannot be called: OSError: no weights here."),
        ("other", "has to return a keras.Model; it returned int."),
        ("missing", "cannot be imported: AttributeError"),
        ("unbuilt", "is not built: it has no weights"),
    ):
        result = run("doctor", f"models_of_test:{name}")
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in " ".join(result.stderr.split())


def test_files_of_unknown_classes(tmp_path):
    class Unknown(keras.layers.Layer):
        pass

    keras.Sequential([keras.Input((4,)), Unknown()]).save(tmp_path / "model.keras")
    result = run("doctor", str(tmp_path / "model.keras"))
    assert result.exit_code == 2
    assert "register_keras_serializable" in result.stderr
    assert "FILE.py:function" in " ".join(result.stderr.split())

    class Unknown(keras.Sequential):
        pass

    Unknown([keras.Input((4,)), keras.layers.Dense(2)]).save(tmp_path / "model.keras")
    result = run("doctor", str(tmp_path / "model.keras"))
    assert "Could not locate class 'Unknown'" in result.stderr
    assert "object config" not in result.stderr


def test_the_short_name_of_a_loss_is_read_from_an_h5_file(tmp_path):
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(2)])
    for loss in ("mse", "MAE", "kld"):
        model.compile("sgd", loss, metrics=["mape"])
        model.save(tmp_path / "model.h5")
        assert load_model(str(tmp_path / "model.h5")).loss is keras.losses.get(loss)


def test_the_version_is_the_packages():
    from importlib.metadata import version

    assert version("tfmp") in run("--version").stdout

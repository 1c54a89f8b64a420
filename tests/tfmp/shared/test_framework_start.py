"""Frameworks start without a word, and a command without what it does not need."""

import os
import subprocess
import sys

import pytest

from tfmp.shared.framework_start import held_back, start_converting, without

SWITCH = "TF_ENABLE_ONEDNN_OPTS"


def noise(error: BaseException | None = None) -> None:
    """As C++ does it: past Python's sys.stderr."""
    os.write(2, b"oneDNN custom operations are on\n")
    if error:
        raise error


def test_noise_is_held_back_and_what_comes_after_is_not(capfd):
    with held_back():
        noise()
    os.write(2, b"a warning\n")
    assert capfd.readouterr().err == "a warning\n"
    with pytest.raises(ImportError), held_back():
        noise(ImportError())
    assert capfd.readouterr().err == "oneDNN custom operations are on\n"
    with pytest.raises(KeyboardInterrupt), held_back():
        noise(KeyboardInterrupt())
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_a_command_starts_without_a_word_of_the_frameworks():
    environment = {name: v for name, v in os.environ.items() if not name.startswith("TF_CPP")}
    command = [sys.executable, "-m", "tfmp.commands.cli", "doctor"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("This machine")


def test_packages_are_hidden_for_the_block_alone(tmp_path, monkeypatch):
    (tmp_path / "wrapped_by_somebody.py").write_text("number = 3")
    monkeypatch.syspath_prepend(tmp_path)
    with without("wrapped_by_somebody"), pytest.raises(ImportError):
        import wrapped_by_somebody
    import wrapped_by_somebody

    assert wrapped_by_somebody.number == 3
    with without("wrapped_by_somebody"):  # it is loaded: hiding it would break who uses it
        assert sys.modules["wrapped_by_somebody"] is wrapped_by_somebody


@pytest.mark.slow
def test_a_command_starts_without_the_packages_that_keras_wraps():
    script = (
        "import sys\n"
        "from tfmp.shared.framework_start import import_tensorflow\n"
        "import_tensorflow()\n"
        "import keras\n"
        "print(*({'sklearn', 'matplotlib', 'pandas', 'jax'} & set(sys.modules)))\n"
        "import sklearn, matplotlib.pyplot\n"
        "model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse')\n"
        "model.fit(keras.ops.ones((4, 2)), keras.ops.ones((4, 1)), verbose=0)\n"
    )
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    del environment["PYTHONPATH"]  # `lean` hides them, too
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert (run.returncode, run.stdout.strip()) == (0, ""), run.stderr


@pytest.mark.slow
def test_a_process_that_converts_has_the_kernels_of_onednn() -> None:
    code = (
        "from tfmp.shared import framework_start as start; start.start_converting();"
        "print(start.tensorflow_uses_onednn())"
    )
    environment = {key: value for key, value in os.environ.items() if key != SWITCH}
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "True"


def test_who_does_without_onednn_is_left_alone(monkeypatch) -> None:
    monkeypatch.setenv(SWITCH, "0")
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    start_converting()
    assert os.environ[SWITCH] == "0"


def test_a_process_whose_tensorflow_has_decided_is_left_alone(monkeypatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.setitem(sys.modules, "tensorflow", sys)
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    start_converting()
    assert SWITCH not in os.environ
    assert os.environ["KERAS_BACKEND"] == "tensorflow"

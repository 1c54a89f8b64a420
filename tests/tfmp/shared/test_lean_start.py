"""A lean start leaves out what is not needed, and leaves nothing behind."""

import os
import subprocess
import sys

import pytest

from tfmp.shared.lean_start import without


def test_packages_are_hidden_for_the_block_alone(tmp_path, monkeypatch):
    (tmp_path / "wrapped_by_somebody.py").write_text("number = 3")
    monkeypatch.syspath_prepend(tmp_path)
    with without("wrapped_by_somebody"), pytest.raises(ImportError):
        import wrapped_by_somebody
    import wrapped_by_somebody

    assert wrapped_by_somebody.number == 3
    with without("wrapped_by_somebody"):  # it is loaded: hiding it would break who uses it
        assert sys.modules["wrapped_by_somebody"] is wrapped_by_somebody


def test_a_command_starts_without_the_packages_that_keras_wraps():
    script = (
        "import sys\n"
        "from tfmp.shared.lean_start import import_tensorflow\n"
        "import_tensorflow()\n"
        "import keras\n"
        "print(*({'sklearn', 'matplotlib', 'pandas', 'jax'} & set(sys.modules)))\n"
        "import sklearn, matplotlib.pyplot\n"
        "model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])\n"
        "model.compile('sgd', 'mse')\n"
        "model.fit(keras.ops.ones((4, 2)), keras.ops.ones((4, 1)), verbose=0)\n"
    )
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert (run.returncode, run.stdout.strip()) == (0, ""), run.stderr

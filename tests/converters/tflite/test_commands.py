"""Overflow from the command line: found, refused, repaired and proven again."""

from pathlib import Path
from types import ModuleType

import keras
import numpy as np
import pytest
from click.testing import CliRunner, Result

from tfmp.converters.cli import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: ModuleType) -> Path:
    """A working directory with a model that overflows, and enough samples for a verdict."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    keras.utils.set_random_seed(1)
    models.variance_overflow().save("variance.keras")
    x = np.random.default_rng(0).normal(size=(400, 1024)).astype(np.float32)
    np.savez("samples.npz", x=x)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_an_overflow_is_a_fail_and_after_repair_a_pass(folder: Path) -> None:
    result = run("tflite", "variance.keras", "--data", "samples.npz")
    assert result.exit_code == 1, result.output
    assert "FAIL" in result.stdout
    result = run(
        "tflite",
        "variance.keras",
        "--data",
        "samples.npz",
        "--repair",
        "--force",
        "--budget",
        "flip_rate=0.02",
    )
    assert result.exit_code == 0, result.output
    assert "PASS" in result.stdout
    assert "repaired layer norm: scaled by powers of two" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--repair"], "--repair measures what overflows on samples: give them with --data."),
        (["--repair", "--data", "samples.npz", "--precision", "fp32"], "repair is about FP16"),
    ],
)
def test_a_repair_that_cannot_be_made_is_refused(
    folder: Path, arguments: list[str], message: str
) -> None:
    result = run("tflite", "variance.keras", *arguments)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert not (folder / "variance.tflite").exists()

"""Fixtures for the tests of `tfmp`: a folder for each command, a model and data in it."""

import shutil
from pathlib import Path

import keras
import numpy as np
import pytest
from stacks import stack


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in a folder of their own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a compiled model and its data."""
    folder = tmp_path_factory.mktemp("made")
    keras.utils.set_random_seed(1)
    hidden = keras.layers.Dense(8, activation="relu", name="hidden")
    net = stack(hidden, 1, optimizer="sgd", loss="mse")
    net.save(folder / "m.keras")
    x = np.random.default_rng(0).standard_normal((20, 4)).astype("float32")
    np.savez(folder / "d.npz", features=x, labels=x.sum(axis=1, keepdims=True))
    return folder


@pytest.fixture
def model(made: Path) -> str:
    """`m.keras` in the current folder, and `d.npz` beside it."""
    shutil.copytree(made, ".", dirs_exist_ok=True)
    return "m.keras"

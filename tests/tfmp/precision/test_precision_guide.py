"""docs/mixed-precision.md: its code runs from top to bottom, and its table is what is printed."""

import keras
import numpy as np
import pytest
from repository import DOCS, blocks

from tfmp import plan

PAGE = (DOCS / "mixed-precision.md").read_text()


def build() -> keras.Model:
    """The model that the page shows the plan of."""
    inputs = keras.Input((8, 8, 1))
    x = keras.layers.Rescaling(1 / 16, name="rescaling")(inputs)
    x = keras.layers.Conv2D(8, 3, activation="relu", name="block_1")(x)
    x = keras.layers.BatchNormalization(name="norm")(x)
    x = keras.layers.Conv2D(8, 3, activation="relu", name="block_2")(x)
    x = keras.layers.GlobalMaxPooling2D(name="pool")(x)
    model = keras.Model(inputs, keras.layers.Dense(10, activation="softmax", name="digit")(x))
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


@pytest.fixture(autouse=True)
def fresh():
    keras.backend.clear_session()  # names of operations count from 1 again
    keras.utils.set_random_seed(7)


@pytest.mark.slow
def test_the_code_runs_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    names = {
        "keras": keras,
        "build": build,
        "model": build(),
        "x": (rng.random((64, 8, 8, 1)) * 16).astype("float32"),
        "y": rng.integers(0, 10, 64),
    }
    for code in blocks(PAGE, "python"):
        exec(code, names)
    printed = capsys.readouterr().out
    assert "skipped 0 of 4 steps" in printed
    for text in blocks(PAGE, "text")[1:]:
        assert text in printed


def test_the_plan_is_printed_as_the_page_has_it():
    printed = str(plan(build(), "mixed_float16", keep_float32=["block_2"]))
    assert blocks(PAGE, "text")[0].strip() == printed

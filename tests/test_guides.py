"""Pages of docs/: their code runs from top to bottom and prints what they show; options exist."""

import inspect
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from repository import DOCS, blocks

from tfmp import plan, profile_training
from tfmp.commands.profile import command as profile
from tfmp.commands.sweep import command as sweep

ON_A_CPU = pytest.mark.skipif(
    bool(tf.config.list_physical_devices("GPU")), reason="printed without a GPU"
)


@pytest.fixture(autouse=True)
def fresh():
    keras.backend.clear_session()  # names of operations count from 1 again
    keras.utils.set_random_seed(7)


def shown(page: str, language: str = "text") -> list[str]:
    return blocks((DOCS / page).read_text(), language)


def build() -> keras.Model:
    """The model that docs/mixed-precision.md shows the plan of."""
    inputs = keras.Input((8, 8, 1))
    x = keras.layers.Rescaling(1 / 16, name="rescaling")(inputs)
    x = keras.layers.Conv2D(8, 3, activation="relu", name="block_1")(x)
    x = keras.layers.BatchNormalization(name="norm")(x)
    x = keras.layers.Conv2D(8, 3, activation="relu", name="block_2")(x)
    x = keras.layers.GlobalMaxPooling2D(name="pool")(x)
    model = keras.Model(inputs, keras.layers.Dense(10, activation="softmax", name="digit")(x))
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


@pytest.mark.parametrize(
    ("page", "printed"),
    [
        ("doctor.md", ["of them float32 under"]),
        pytest.param("profiling.md", ["mixed_float16 is"], marks=pytest.mark.slow),
        pytest.param(
            "colocate.md",
            ["single  float32", "RuntimeError: no such architecture"],
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "graph-rewrite.md",
            [*shown("graph-rewrite.md")[:1], "\n32768.0\n", "{'float16'} float32\n"],
            marks=[pytest.mark.slow, ON_A_CPU],
        ),
        pytest.param(
            "mixed-precision.md",
            ["skipped 0 of 4 steps", *shown("mixed-precision.md")[1:]],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_code_runs_from_top_to_bottom(page, printed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    names = {"__name__": "page"}
    if page == "mixed-precision.md":  # which goes on with a model and data of the reader's
        x, y = (rng.random((64, 8, 8, 1)) * 16).astype("float32"), rng.integers(0, 10, 64)
        names |= {"keras": keras, "build": build, "model": build(), "x": x, "y": y}
    for number, code in enumerate(shown(page, "python")):
        path = tmp_path / f"block_{number}.py"  # where TensorFlow finds the source of functions
        path.write_text(code)
        exec(compile(code, str(path), "exec"), names)
    out = capsys.readouterr().out
    assert [text for text in printed if text not in out] == []


def test_the_plan_is_printed_as_the_page_has_it():
    printed = str(plan(build(), "mixed_float16", keep_float32=["block_2"]))
    assert shown("mixed-precision.md")[0].strip() == printed


def test_every_option_named_is_one():
    text = (DOCS / "profiling.md").read_text()
    parameters = [*profile.params, *sweep.params]
    options = {name for each in parameters for name in (*each.opts, *each.secondary_opts)}
    assert set(re.findall(r"(--[a-z][a-z-]+)", text)) <= options
    arguments = inspect.signature(profile_training).parameters
    assert set(re.findall(r"`(\w+)=(?:True|False)?`", text)) <= {*arguments, "jit_compile"}

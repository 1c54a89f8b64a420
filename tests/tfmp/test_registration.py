"""registration: a saved model loads once tfmp and Keras are imported, in either order."""

import subprocess
import sys

import keras
import pytest

import tfmp
from tfmp.registration import REGISTERED


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    optimizer = tfmp.LossScaleOptimizer(keras.optimizers.SGD(0.1), tfmp.StaticLossScale(8.0))
    model.compile(optimizer, "mse")
    path = tmp_path_factory.mktemp("saved") / "model.keras"
    model.save(path)
    return path


@pytest.mark.slow
def test_a_saved_model_loads_where_keras_came_while_a_module_was_loading(saved):
    script = (
        "import tfmp.loss_scaling.strategies, keras\n"
        f"optimizer = keras.models.load_model({str(saved)!r}).optimizer\n"
        "print(type(optimizer).__module__, float(optimizer.dynamic_scale.value))\n"
        "print(type(keras.__spec__.loader).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["tfmp.loss_scaling.optimizer", "8.0", "SourceFileLoader"], (
        done.stderr
    )


def test_without_tfmp_the_message_says_to_import_it(saved):
    """Here the class is taken away, which is where a process without the import begins."""
    hidden = {name: keras.saving.get_custom_objects().pop(name) for name in known_names()}
    try:
        with pytest.raises(
            TypeError, match=r"Could not locate .*'hint': 'import tfmp before keras"
        ):
            keras.models.load_model(saved)
        assert keras.models.load_model(saved, compile=False).built
    finally:
        keras.saving.get_custom_objects().update(hidden)


def known_names() -> list[str]:
    return [name for name in keras.saving.get_custom_objects() if name.startswith("tfmp>")]


def test_every_registered_class_is_listed():
    for module in set(REGISTERED.values()):
        __import__(module)
    known = {
        name.removeprefix("tfmp>"): registered
        for name, registered in keras.saving.get_custom_objects().items()
        if name.startswith("tfmp>")
    }
    assert {name: registered.__module__ for name, registered in known.items()} == REGISTERED

"""Models converted to TFLite once for all tests that run or read such files."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="session")
def models() -> ModuleType:
    """The functions of `litert_models.py`, imported where a test needs them: they need Keras."""
    import litert_models

    return litert_models


@pytest.fixture(scope="session")
def export() -> Callable[..., Any]:
    """`export_tflite`, imported where a test needs it."""
    from tfmp.converters.tflite.export.export import export_tflite

    return export_tflite


@pytest.fixture(scope="session")
def convert(
    tmp_path_factory: pytest.TempPathFactory, export: Callable[..., Any]
) -> Callable[..., Any]:
    """Converts the model that a function makes; the same request only once.

    Returns:
        A function of the model's maker and of options of `export_tflite`, which gives the
        `Source` and the `TFLiteFile`.
    """
    import keras

    from tfmp.converters import open_source

    done: dict[tuple[object, ...], Any] = {}

    def converted(make: Callable[[], Any], **options: object) -> Any:
        key = (make.__name__, *sorted(options.items(), key=str))
        if key not in done:
            keras.utils.set_random_seed(11)
            source = open_source(make())
            output = tmp_path_factory.mktemp("tflite") / f"{make.__name__}.tflite"
            done[key] = source, export(source, output, **options)
        return done[key]

    return converted

"""Models exported once for all tests that look at the export."""

from collections.abc import Callable

import onnx_ir as ir
import pytest

from tfmp.converters.intake.source import Source

Exported = Callable[[str], tuple[Source, ir.Model]]


@pytest.fixture(scope="session")
def exported() -> Exported:
    """The source and the export of a model of `keras_models.py`; the export may be changed."""
    import keras_models

    from tfmp.converters.intake import open_source
    from tfmp.converters.onnx.export.export import export_onnx

    done: dict[str, tuple[Source, ir.Model]] = {}

    def export(name: str) -> tuple[Source, ir.Model]:
        if name not in done:
            source = open_source(getattr(keras_models, name)())
            done[name] = source, export_onnx(source)
        source, model = done[name]
        return source, model.clone()

    return export

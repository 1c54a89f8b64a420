"""Every layer, activation, op and model family of Keras exports rightly, or says why not."""

import inspect

import keras
import pytest
import sweep

from tfmp.converters.intake import open_source
from tfmp.converters.onnx.export.export import check_export, export_onnx
from tfmp.converters.onnx.fp16.rewriter import to_fp16
from tfmp.converters.onnx.graph.types import check
from tfmp.converters.shared.errors import ConversionError

SMALL = [row for row in sweep.all_rows() if row.group != "applications"]
# One of each family, as larger ones repeat its layers: `benchmarks/support_table.py
# --every-application` runs them all.
APPLICATIONS = list(sweep.application_rows())


@pytest.fixture(autouse=True)
def forget_names(request):
    """The few quick rows leave memory that nobody misses: collecting it takes long."""
    yield
    keras.backend.clear_session(free_memory="slow" in request.keywords)


def assert_exports_and_converts(row: sweep.Row) -> None:
    source = open_source(row.build())
    model = export_onnx(source)
    assert check_export(model, source) < 1e-5
    model, _ = to_fp16(model)
    check(model)


def marked(rows: list[sweep.Row]) -> list:
    """As parameters: all but a few are for the slow tests."""
    return [
        pytest.param(
            row,
            id=str(row),
            marks=[] if str(row) in sweep.REPRESENTATIVE else pytest.mark.slow,
        )
        for row in rows
    ]


@pytest.mark.parametrize("row", marked(SMALL))
def test_row(row: sweep.Row):
    reason = sweep.UNSUPPORTED.get(row.name)
    if reason is None:
        assert_exports_and_converts(row)
        return
    with pytest.raises(ConversionError) as caught:
        assert_exports_and_converts(row)
    assert reason in str(caught.value)


@pytest.mark.parametrize("row", marked(APPLICATIONS))
def test_application(row: sweep.Row):
    assert_exports_and_converts(row)


def test_what_represents_the_rest_is_there():
    assert {*map(str, SMALL), *map(str, APPLICATIONS)} >= sweep.REPRESENTATIVE


def public(module: object, wanted) -> set[str]:
    return {name for name in dir(module) if name[0] != "_" and wanted(getattr(module, name))}


def test_no_layer_class_is_left_out():
    """Aliases count under the name of the class they stand for."""
    swept = {row.name.split()[0] for row in SMALL}
    missing = {
        name
        for name in public(keras.layers, inspect.isclass)
        if getattr(keras.layers, name).__name__ not in swept | sweep.SWEPT_INSIDE
        and name not in sweep.NOT_SWEPT["layers"]
    }
    assert not missing


@pytest.mark.parametrize("group", ["activations", "ops"])
def test_no_function_is_left_out(group):
    swept = {row.name for row in SMALL if row.group == group}
    functions = public(getattr(keras, group), callable)
    assert not functions - swept - set(sweep.NOT_SWEPT[group])


def test_no_function_on_images_is_left_out():
    swept = {row.name.split()[0] for row in SMALL}
    assert {f"image.{name}" for name in public(keras.ops.image, callable)} <= swept


@pytest.mark.parametrize("module", ["linalg", "nn", "numpy"])
def test_other_modules_have_nothing_of_their_own(module):
    assert public(getattr(keras.ops, module), callable) <= set(dir(keras.ops))


def test_what_is_not_supported_has_a_row():
    assert set(sweep.UNSUPPORTED) <= {row.name for row in SMALL}

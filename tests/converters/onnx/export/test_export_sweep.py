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
# `test_conversion_corpus.py` converts the others.
APPLICATIONS = [
    row for row in sweep.application_rows() if row.name in ("MobileNet", "NASNetMobile")
]


# So many rows are exported as one model.
TOGETHER = 10


@pytest.fixture(autouse=True)
def forget_names(request):
    """The few quick rows leave memory that nobody misses: collecting it takes long."""
    yield
    keras.backend.clear_session(free_memory="slow" in request.keywords)


def assert_exports_and_converts(built: keras.Model) -> None:
    source = open_source(built)
    model = export_onnx(source)
    assert check_export(model, source) < 1e-4  # the bound of docs/support.md
    model, _ = to_fp16(model)
    check(model)


def joined(rows: list[sweep.Row]) -> keras.Model:
    """A model of all these, side by side."""
    inputs, outputs = [], {}
    for place, row in enumerate(rows):
        model = row.build()
        own = [
            keras.Input(batch_shape=x.shape, dtype=x.dtype, name=f"row{place}_{x.name}")
            for x in model.inputs
        ]
        made = keras.tree.flatten(model(own if len(own) > 1 else own[0]))
        outputs |= {f"row{place}_y{index}": y for index, y in enumerate(made)}
        inputs += own
    return keras.Model(inputs, outputs)


def fault_of(row: sweep.Row) -> str:
    """The fault of a row alone, if it is to blame."""
    try:
        assert_exports_and_converts(row.build())
    except Exception as error:
        return f"{row}: {error}"
    return ""


def is_quick(row: sweep.Row) -> bool:
    return str(row) in sweep.REPRESENTATIVE


def marked(rows: list, row_of=lambda row: row) -> list:
    """As parameters: all but a few are for the slow tests."""
    return [
        pytest.param(
            row, id=str(row_of(row)), marks=[] if is_quick(row_of(row)) else pytest.mark.slow
        )
        for row in rows
    ]


def groups() -> list[list[sweep.Row]]:
    """The rows that export, quick ones apart from others."""
    whole = [row for row in SMALL if row.name not in sweep.UNSUPPORTED]
    found = []
    for quick in (True, False):
        part = [row for row in whole if is_quick(row) == quick]
        found += [part[start : start + TOGETHER] for start in range(0, len(part), TOGETHER)]
    return found


@pytest.mark.parametrize("rows", marked(groups(), lambda rows: rows[0]))
def test_rows(rows: list[sweep.Row]):
    try:
        assert_exports_and_converts(joined(rows))
    except Exception as error:
        told = [*filter(None, map(fault_of, rows))] or [f"only together: {error}"]
        pytest.fail("\n".join(told))


@pytest.mark.parametrize("row", marked([row for row in SMALL if row.name in sweep.UNSUPPORTED]))
def test_a_row_without_an_export_says_why(row: sweep.Row):
    with pytest.raises(ConversionError) as caught:
        assert_exports_and_converts(row.build())
    assert sweep.UNSUPPORTED[row.name] in str(caught.value)


@pytest.mark.parametrize("row", marked(APPLICATIONS))
def test_application(row: sweep.Row):
    assert_exports_and_converts(row.build())


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

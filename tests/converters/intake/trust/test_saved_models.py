"""SavedModels that do more than compute are refused before anything of them runs."""

import re
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf.message import DecodeError
from hypothesis import given, settings, strategies
from mutations import mutated
from tensorflow.core.framework.op_def_pb2 import OpList
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow.python.client import pywrap_tf_session

import tfmp
from tfmp.converters import convert
from tfmp.converters.intake import open_source
from tfmp.converters.intake.trust import code_in_saved_model
from tfmp.converters.intake.trust.names import OPERATIONS
from tfmp.converters.onnx.export import check_export, export_onnx
from tfmp.converters.shared import time_limits
from tfmp.converters.shared.errors import ConversionError, InputError

X = {"x": np.ones((2, 3), np.float32)}


def saved(folder: Path, body: Callable[[Any], Any]) -> Path:
    """A SavedModel of a function of a float32 tensor [?, 3]."""
    module = tf.Module()
    module.weight = tf.Variable(tf.ones((3, 2)))

    @tf.function(input_signature=[tf.TensorSpec((None, 3), name="x")])
    def serve(x):
        return {"y": body(x) @ module.weight}

    tf.saved_model.save(module, str(folder / "model"), signatures=serve)
    return folder / "model"


def behind(operation: tf.Operation, x: Any) -> Any:
    """The values, once an operation has run."""
    with tf.control_dependencies([operation]):
        return tf.identity(x)


def inner(x: Any) -> Any:
    """An operation two functions deep, in a branch."""
    written = tf.function(lambda v: behind(tf.io.write_file("pwned", "text"), v))
    return tf.cond(
        tf.reduce_sum(x) > 0, lambda: tf.function(lambda v: written(v) * 2)(x), lambda: x
    )


def size(text: Any) -> Any:
    return tf.cast(tf.size(text), tf.float32)


HOSTILE: dict[str, Callable[[Any], Any]] = {
    "WriteFile": inner,
    "PrintV2": lambda x: behind(tf.print("pwned", output_stream="file://pwned"), x),
    "EagerPyFunc": lambda x: tf.ensure_shape(
        tf.py_function(tf.identity, [x], "float32"), (None, 3)
    ),
    "RestoreV2": lambda x: (
        x
        + size(
            tf.raw_ops.RestoreV2(
                prefix="a", tensor_names=["a"], shape_and_slices=[""], dtypes=[tf.float32]
            )[0]
        )
    ),
}


@pytest.mark.parametrize("op", HOSTILE)
def test_an_operation_that_does_more_than_compute_is_refused(
    op: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = saved(tmp_path, HOSTILE[op])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=rf"calls {op}, which does more than compute") as caught:
        open_source(path)
    assert str(path) in str(caught.value)
    assert "allow it with --unsafe-load" in str(caught.value)
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_layers_that_were_adapted_are_opened(tmp_path: Path):
    """Keras 2 keeps the step of `adapt`, which takes an iterator that no file can make."""
    import tf_keras

    layer = tf_keras.layers.Normalization(input_shape=(3,))
    layer.adapt(np.arange(12, dtype=np.float32).reshape(4, 3))
    model = tf_keras.Sequential([layer])
    model.save(str(tmp_path / "model"), save_format="tf")
    kept = (tmp_path / "model" / "saved_model.pb").read_bytes()
    assert b"IteratorGetNext" in kept
    source = open_source(tmp_path / "model")
    (name,) = (spec.name for spec in source.inputs)
    (received,) = source.forward({name: X["x"]}).values()
    np.testing.assert_allclose(received, model(X["x"]), rtol=1e-5)


def test_an_iterator_can_be_read_and_not_made():
    assert {one for one in OPERATIONS if "Iterator" in one} == {"IteratorGetNext"}
    assert OPERATIONS.isdisjoint(("SaveV2", "DatasetFromGraph"))


def test_who_trusts_a_model_may_run_it(tmp_path: Path):
    path = saved(tmp_path, lambda x: x + size(tf.io.read_file("/etc/hostname")))
    source = open_source(path, unsafe_load=True)
    np.testing.assert_array_equal(source.forward(X)["y"], np.full((2, 2), 6.0))


def everything(x: Any) -> Any:
    """A loop, random numbers, an assertion and texts."""
    x = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 1.0), (0, x))[1]
    x = behind(tf.debugging.Assert(tf.size(x) > 0, [x]), x)
    x = x + 0.0 * tf.strings.to_number(tf.strings.as_string(x))
    return x + 0.0 * tf.random.uniform(tf.shape(x))


BENIGN: dict[str, Callable[[Any], Any]] = {
    "everything": everything,
    "a print": lambda x: behind(tf.print("debugging", x), x),
    "an old print": lambda x: tf.raw_ops.Print(input=x, data=[x], message="debugging"),
}


@pytest.mark.parametrize("kind", BENIGN)
def test_what_computes_is_opened(kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    received = open_source(saved(tmp_path, BENIGN[kind])).forward(X)["y"]
    np.testing.assert_allclose(received, np.full((2, 2), 3.0))
    assert "debugging" not in "".join(capfd.readouterr())


def table(folder: Path) -> Path:
    """A SavedModel with a table that is filled from an asset when it is loaded."""
    vocabulary = folder / "vocabulary.txt"
    vocabulary.write_text("cat\ndog\n")
    module = tf.Module()
    filled = tf.lookup.TextFileInitializer(
        str(vocabulary),
        *(tf.string, tf.lookup.TextFileIndex.WHOLE_LINE),
        *(tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER),
    )
    module.table = tf.lookup.StaticHashTable(filled, -1)

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.string, name="x")])
    def serve(x):
        return {"y": tf.math.erfc(tf.gather([-1.0, 0.3, 0.5], module.table.lookup(x) + 1))}

    tf.saved_model.save(module, str(folder / "model"), signatures=serve)
    return folder / "model"


def changed(path: Path, change: Callable[[Any], None]) -> Path:
    """The SavedModel with another graph."""
    file = path / "saved_model.pb"
    proto = SavedModel()
    proto.ParseFromString(file.read_bytes())
    change(proto.meta_graphs[0])
    file.write_bytes(proto.SerializeToString())
    return path


def test_a_table_reads_its_own_asset(tmp_path: Path):
    source = open_source(table(tmp_path))
    found = source.forward({"x": np.array(["dog", "cow"])})["y"]
    np.testing.assert_allclose(found, [0.4795, 1.8427], 1e-4)


@pytest.mark.parametrize("name", ["../../vocabulary.txt", "/etc/passwd", "C:\\x"])
def test_an_asset_elsewhere_is_refused(name: str, tmp_path: Path):
    def change(graph: Any) -> None:
        graph.asset_file_def[0].filename = name

    with pytest.raises(InputError, match=r"reads the file .* which is outside of its folder"):
        open_source(changed(table(tmp_path), change))


def test_a_table_from_a_constant_name_is_refused(tmp_path: Path):
    def change(graph: Any) -> None:
        for function in graph.graph_def.library.function:
            for node in function.node_def:
                if node.op == "InitializeTableFromTextFileV2":
                    constant = function.node_def.add(name="secret", op="Const")
                    value = tf.make_tensor_proto("/etc/passwd")
                    constant.attr["value"].tensor.CopyFrom(value)
                    constant.attr["dtype"].type = value.dtype
                    node.input[1] = "secret:output:0"

    with pytest.raises(
        InputError, match="fills a table from a file that is not one of the model's"
    ):
        open_source(changed(table(tmp_path), change))


def itself(graph: Any) -> None:
    functions = graph.graph_def.library.function
    function = next(each for each in functions if "_serve_" in each.signature.name)
    call = function.node_def.add(name="again", op="StatefulPartitionedCall")
    call.attr["f"].func.name = function.signature.name


def foreign(graph: Any) -> None:
    """As TensorRT writes them."""
    graph.graph_def.library.function[0].node_def.add(name="engine", op="TRTEngineOp")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            foreign,
            "'engine' calls TRTEngineOp, which TensorFlow does not have here. Name the model",
        ),
        (itself, "cyclic dependency between functions"),
    ],
)
def test_what_cannot_be_loaded_is_refused(change: Any, told: str, tmp_path: Path):
    with pytest.raises(InputError, match=told):
        open_source(changed(table(tmp_path), change))


def old_saved_model(
    folder: Path,
    name: str,
    initial: Callable[[], Any],
    change: Callable[[Any], Any] = tf.identity,
    resource: bool = True,
    texts: tuple[str, ...] = (),
    fed: bool = False,
) -> Path:
    """A SavedModel of TensorFlow 1, with an operation that runs when it is loaded."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, (None, 3), "x")
        weight = tf.compat.v1.get_variable("weight", (3, 2), use_resource=resource)
        y = change(x @ weight)
        signature = tf.compat.v1.saved_model.predict_signature_def
        signatures = {"serving_default": signature({"x": x}, {"y": y})}
        for key in texts:
            given = tf.compat.v1.placeholder(tf.string, (None,), f"{key}_texts")
            kinds = {name: tf.io.FixedLenFeature((3,), name) for name in ("int64", "float32")}
            read = tf.io.parse_example(given, kinds)
            found = read["float32"] + tf.cast(read["int64"], "float32")
            signatures[key] = signature({"texts": given}, {"y": found @ weight})
            if fed:  # a signature that is given what another one parses, as TensorFlow Serving's
                signatures["fed"] = signature({"x": found}, {"y": found @ weight})
        session.run(tf.compat.v1.global_variables_initializer())
        builder = tf.compat.v1.saved_model.Builder(str(folder / name))
        builder.add_meta_graph_and_variables(session, ["serve"], signatures, main_op=initial())
        builder.save()
    return folder / name


@pytest.mark.filterwarnings("ignore")
def test_saved_models_of_tensorflow_1(tmp_path: Path):
    plain = old_saved_model(tmp_path, "plain", tf.no_op)
    assert open_source(plain).forward(X)["y"].shape == (2, 2)
    writes = partial(tf.io.write_file, str(tmp_path / "pwned"), "x")
    with pytest.raises(InputError, match="calls WriteFile"):
        open_source(old_saved_model(tmp_path, "writes", writes))
    # The path that variables are restored from is the caller's to choose.
    file = SavedModel()
    file.ParseFromString((plain / "saved_model.pb").read_bytes())
    assert code_in_saved_model(file) is None
    file.meta_graphs[0].signature_def.clear()
    (plain / "saved_model.pb").write_bytes(file.SerializeToString())
    with pytest.raises(InputError, match=r"no signatures, .*\.prune\(\['INPUT:0'\], \["):
        open_source(plain)
    nodes = file.meta_graphs[0].graph_def.node
    next(node for node in nodes if node.op == "RestoreV2").input[0] = "x"
    assert "calls RestoreV2" in str(code_in_saved_model(file))
    assert not (tmp_path / "pwned").exists()


def chosen_by_a_default(y: tf.Tensor) -> tf.Tensor:
    """As a batch normalization is that takes its statistics from variables unless it is trained."""
    mean = tf.compat.v1.get_variable("mean", (2,), use_resource=True)
    trained = tf.compat.v1.placeholder_with_default(False, (), "is_training")
    return y - tf.cond(trained, lambda: tf.reduce_mean(y, 0), lambda: mean)


def old_loop(y: tf.Tensor) -> tf.Tensor:
    tf.compat.v1.disable_control_flow_v2()
    try:
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 1.5), [0, y])[1]
    finally:
        tf.compat.v1.enable_control_flow_v2()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("change", [chosen_by_a_default, old_loop])
def test_graphs_of_tensorflow_1_are_exported(change: Callable[[Any], Any], tmp_path: Path):
    source = open_source(old_saved_model(tmp_path, "old", tf.no_op, change))
    assert check_export(export_onnx(source), source) < 1e-6


@pytest.mark.filterwarnings("ignore")
def test_reference_variables_and_signatures_of_texts_become_tflite(tmp_path: Path):
    """A signature that no format can express leaves the others."""
    path = old_saved_model(tmp_path, "old", tf.no_op, resource=False, texts=("regress",))
    source = open_source(path)
    assert [variable.name for variable in source.variables] == ["weight:0"]
    artifact = convert(path, "tflite", tmp_path / "out.tflite", "fp32", data=X)
    assert artifact.report is not None
    assert artifact.report.candidates[0].outputs[0].rel_l2 < 1e-6
    assert any("'regress' is left out" in note for note in artifact.notes)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("format_name", ["onnx", "tflite"])
@pytest.mark.parametrize("words", [True, False])
def test_texts_are_told_with_the_part_behind_them(words: bool, format_name: str, tmp_path: Path):
    texts = ("serving_default", "predict")  # as Estimators' SavedModels take them
    path = table(tmp_path) if words else old_saved_model(tmp_path, "old", tf.no_op, texts=texts)
    with pytest.raises(ConversionError) as caught:
        convert(path, format_name, tmp_path / f"whole.{format_name}")
    names: dict = {"tfmp": tfmp}
    exec(re.search(r"`(whole = .*)`", str(caught.value))[1], names)
    part = open_source(names["model"])
    fed = {spec.name: np.ones((2, *spec.shape[1:]), spec.dtype) for spec in part.inputs}
    artifact = convert(part, format_name, tmp_path / f"part.{format_name}", data=fed)
    assert artifact.report.candidates[0].outputs[0].rel_l2 < 1e-3


@pytest.mark.filterwarnings("ignore")
def test_signatures_of_tensors_are_named_beside_those_of_texts(tmp_path: Path):
    path = old_saved_model(tmp_path, "fed", tf.no_op, texts=("serving_default",), fed=True)
    with pytest.raises(InputError, match=r"--signature: 'fed'"):
        open_source(path)
    source = open_source(path, signature="fed")
    assert check_export(export_onnx(source), source) < 1e-6


@pytest.mark.filterwarnings("ignore")
def test_a_table_of_tensorflow_1_is_opened(tmp_path: Path):
    def looked_up(y: tf.Tensor) -> tf.Tensor:
        filled = tf.lookup.KeyValueTensorInitializer([1], [2], tf.int64, tf.int64)
        table = tf.lookup.StaticHashTable(filled, 0)
        return y + tf.cast(table.lookup(tf.cast(y, tf.int64)), tf.float32)

    path = old_saved_model(tmp_path, "table", tf.compat.v1.tables_initializer, looked_up)
    source = open_source(path)
    assert [spec.name for spec in source.outputs] == ["y"]
    with pytest.raises(
        ConversionError, match=r"hash_table_Lookup\S* reads a table.* before the mo"
    ):
        export_onnx(source)
    with pytest.raises(ConversionError, match=r"looks values up in a table or .* TFLite cannot"):
        convert(source, "tflite", tmp_path / "out.tflite")


@pytest.mark.parametrize(
    ("function", "spec", "told"),
    [
        (lambda x: x.to_tensor(), tf.RaggedTensorSpec((None, None)), "input 'x' is ragged or spa"),
        (tf.sparse.reduce_sum, tf.SparseTensorSpec((None, 4)), "input 'x' is .*from_dense"),
        (tf.RaggedTensor.from_tensor, tf.TensorSpec((None, 4)), "output 'output_0' is ragged"),
    ],
)
def test_a_tensor_that_is_not_dense_is_told(function: Any, spec: Any, told: str, tmp_path: Path):
    module = tf.Module()
    module.call = tf.function(lambda x: function(x), input_signature=[spec])
    tf.saved_model.save(module, str(tmp_path), signatures=module.call)
    with pytest.raises(InputError, match=told):
        open_source(tmp_path)


@pytest.mark.parametrize("trusted", [False, True])
def test_reading_and_calls_end_in_time(
    trusted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A loop may have no end; the limit is obeyed in a test of `watched`."""
    path, limits = saved(tmp_path, tf.identity), []
    monkeypatch.setattr(time_limits, "within", lambda *limit: nullcontext(limits.append(limit)))
    open_source(path, unsafe_load=trusted).forward(X)
    found = [(round(seconds), work) for seconds, work in limits]
    expected = [(60, f"the reading of {path}"), (50, "a call of model 'model'")]
    assert found == ([] if trusted else expected)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return (table(tmp_path_factory.mktemp("sound")) / "saved_model.pb").read_bytes()


@settings(derandomize=True, max_examples=150, deadline=None)
@given(seed=strategies.integers(0, 2**32))
def test_damage_is_looked_at_without_a_traceback(sound: bytes, seed: int):
    proto = SavedModel()
    with suppress(DecodeError):
        proto.ParseFromString(mutated(sound, seed))
        code_in_saved_model(proto)


def test_every_operation_with_the_name_of_a_file_is_refused():
    """All operations of the TensorFlow that is installed, by their inputs and attributes."""
    operations = OpList()
    operations.ParseFromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    outside = re.compile(
        r"(^|_)(file|files|filename|filenames|path|dir|url|urls|address|addresses|token"
        r"|memory_region_name|descriptor_source|debug_ops_spec|output_stream|protocol|graph_def)$"
    )
    harmless = {"ShardedFilename", "ShardedFilespec", "_Arg"}
    assert len(operations.op) > 1000
    for op in operations.op:
        names = [each.name for each in (*op.input_arg, *op.attr)]
        if any(map(outside.search, names)) and op.name not in harmless:
            assert op.name not in OPERATIONS, (op.name, names)

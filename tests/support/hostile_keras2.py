"""Files of Keras 2 that would read, write, connect, wait or run code, and harmless twins of them.

Most are written as text: no version of Keras writes them, and old ones could be made to read them.
"""

import base64
import io
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

# Calls of TensorFlow by name, which the layers TFOpLambda and SlicingOpLambda make.
CALLED = """
compat.v1.Print compat.v1.disable_eager_execution compat.v1.gfile.Remove compat.v1.py_func
compat.v1.rpc_client compat.v1.train.Saver config.experimental_connect_to_host data.Dataset
data.experimental.service.DispatchServer debugging.experimental.enable_dump_debug_info
distribute.experimental.ParameterServerStrategy io.gfile.GFile io.gfile.makedirs io.gfile.remove
io.gfile.rmtree io.matching_files io.read_file io.write_file io.write_graph
keras.backend.print_tensor keras.models.load_model keras.utils.get_file load_library
load_op_library nn.fixed_unigram_candidate_sampler numpy_function profiler.experimental.start
py_function queue.FIFOQueue random.fixed_unigram_candidate_sampler raw_ops.Abort
raw_ops.DebugIdentityV2 raw_ops.WriteFile saved_model.load summary.create_file_writer
sysconfig.get_lib train.load_checkpoint train.write_graph while_loop xla_launch
""".split()

# Operations that a TensorFlowOpLayer holds.
HELD = """
Abort Barrier CollectiveGather DatasetFromGraph DatasetToSingleElement DebugIdentity
DebugIdentityV2 DebugNumericSummaryV2 EagerPyFunc FixedLengthRecordReaderV2
FixedUnigramCandidateSampler ImmutableConst InitializeTableFromTextFileV2 LMDBReader LoadDataset
MatchingFiles MutexLock OneShotIterator OrderedMapUnstage PrintV2 PyFunc PyFuncStateless
QueueDequeueV2 ReadFile RestoreV2 RpcClient RpcServerStart SaveV2 Skipgram SqlDataset Stage
TextLineDataset TFRecordReaderV2 Unstage WholeFileReaderV2 WriteFile WriteSummary XlaLaunch
_HostRecv _Recv _Send
""".split()

Config = dict[str, Any]
Write = Callable[[Path], None]


def layer(kind: str, inner: Config, **beside: object) -> Config:
    """A layer as an architecture holds it."""
    return {"class_name": kind, "config": {"name": "hostile", **inner}, "name": "hostile", **beside}


def functional(hostile: Config) -> Config:
    """An architecture of one input, a layer behind it, and its output."""
    given = {"name": "x", "batch_input_shape": [None, 4], "dtype": "float32", "sparse": False}
    nodes = [
        {"class_name": "InputLayer", "config": given, "name": "x", "inbound_nodes": []},
        {**hostile, "inbound_nodes": [[["x", 0, 0, {}]]]},
    ]
    ends = {"input_layers": [["x", 0, 0]], "output_layers": [["hostile", 0, 0]]}
    return {"class_name": "Functional", "config": {"name": "model", "layers": nodes, **ends}}


def h5(config: Config, path: Path) -> None:
    """An HDF5 file with an architecture and no weights."""
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = json.dumps(config)
        file.attrs["keras_version"] = "2.15.0"
        weights = file.create_group("model_weights")
        weights.attrs["layer_names"] = np.array([b"x", b"hostile"])
        for name in ("x", "hostile"):
            weights.create_group(name).attrs["weight_names"] = np.array([], dtype="S1")


def archive(config: Config, path: Path, weights: bytes | None = None) -> None:
    """An archive of Keras 2.15."""
    if weights is None:
        buffer = io.BytesIO()
        h5py.File(buffer, "w").close()
        weights = buffer.getvalue()
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("metadata.json", json.dumps({"keras_version": "2.15.0"}))
        file.writestr("config.json", json.dumps(config))
        file.writestr("model.weights.h5", weights)


def architectures() -> Mapping[str, Config]:
    """Architectures that no file may have, by what they do."""
    code = base64.b64encode(b"code").decode()
    lambda_ = {"function": [code, None, None], "function_type": "lambda"}
    get_file = {"module": "keras.utils", "class_name": "function", "config": "get_file"}
    system = {"module": "os", "class_name": "function", "config": "system"}
    found = {
        "a Lambda": layer("Lambda", lambda_),
        "a registered Lambda": layer("Lambda", lambda_, registered_name="Their>Lambda"),
        "a Lambda of a function": layer("Lambda", {"function": get_file, "arguments": {}}),
        "a Lambda in a wrapper": layer("TimeDistributed", {"layer": layer("Lambda", lambda_)}),
        "a lambda as activation": layer(
            "Dense", {"units": 1, "activation": {"class_name": "__lambda__", "config": {}}}
        ),
        "os.system as activation": layer("Dense", {"units": 1, "activation": system}),
        "get_file as activation": layer("Dense", {"units": 1, "activation": get_file}),
        "eval as activation": layer(
            "Activation",
            {"activation": {"module": "builtins", "class_name": "function", "config": "eval"}},
        ),
        "a loader of Keras by its module": layer(
            "load_model", {"filepath": "/etc"}, module="keras.models", registered_name=None
        ),
        "a class of somebody's": layer("Popen", {"args": "id"}, module="subprocess"),
        "a metric that calls": layer("MeanMetricWrapper", {"fn": get_file}, module="keras.metrics"),
        "a vocabulary in a file": layer("StringLookup", {"vocabulary": "/etc/passwd"}),
        "a vocabulary at a URL": layer("TextVectorization", {"vocabulary": "http://localhost/"}),
        "a column of a vocabulary file": layer(
            "DenseFeatures",
            {
                "feature_columns": [
                    layer("VocabularyFileCategoricalColumn", {"vocabulary_file": "/etc/passwd"})
                ]
            },
        ),
        "a column of a checkpoint": layer(
            "DenseFeatures",
            {"feature_columns": [layer("EmbeddingColumn", {"ckpt_to_load_from": "/etc"})]},
        ),
        "a method of a data set": layer(
            "ClassMethod", {"cls_symbol": "data.Dataset", "method_name": "list_files"}
        ),
        "a writer of records": layer(
            "ClassMethod", {"cls_symbol": "io.TFRecordWriter", "method_name": "write"}
        ),
        "a method of a tensor": layer("InstanceMethod", {"attr_name": "__reduce__"}),
        "a property of a tensor": layer("InstanceProperty", {"attr_name": "graph"}),
        "a message that is none": layer("TensorFlowOpLayer", {"node_def": "\u00ff"}),
    }
    for name in CALLED:
        kind = ("TFOpLambda", "SlicingOpLambda")[len(name) % 2]
        found[f"{kind} of {name}"] = layer(kind, {"function": name})
    for op in HELD:
        node = {"name": "hostile", "op": op, "input": ["x"]}
        message = f"\n\x07hostile\x12{chr(len(op))}{op}"
        written = (node, message)[len(op) % 2]
        found[f"an operation {op}"] = layer("TensorFlowOpLayer", {"node_def": written})
    return {name: functional(hostile) for name, hostile in found.items()}


def _dense(weights: Callable[[h5py.Group], None]) -> Write:
    """A file of one Dense layer, whose kernel is left to `weights`."""

    def write(path: Path) -> None:
        inner = {"name": "hostile", "units": 2, "activation": "linear", "use_bias": False}
        config = functional(layer("Dense", inner))
        if path.suffix == ".keras":
            buffer = io.BytesIO()
            with h5py.File(buffer, "w") as file:
                weights(file.create_group("layers/dense/vars"))
            archive(config, path, buffer.getvalue())
            return
        h5(config, path)
        with h5py.File(path, "r+") as file:
            group = file["model_weights/hostile"]
            group.attrs["weight_names"] = np.array([b"0"])
            weights(group)

    return write


def reaching_out(secret: Path) -> Mapping[str, Write]:
    """Files of HDF5 whose weights are elsewhere, by how; `secret` holds them.

    Args:
        secret: a file of HDF5, with the weights in its data set "0" and in its group "group".
    """
    size = 4 * 2 * 4

    def stored(group: h5py.Group) -> None:
        group.create_dataset("0", (4, 2), "f4", external=[(str(secret), 0, size)])

    def stored_in_parts(group: h5py.Group) -> None:
        parts = [(str(secret), 0, size // 2), ("/etc/passwd", 0, size // 2)]
        group.create_dataset("0", (4, 2), "f4", external=parts)

    def in_a_pipe(group: h5py.Group) -> None:
        pipe = secret.with_name("pipe0")
        if not pipe.exists():
            os.mkfifo(pipe)
        group.create_dataset("0", (4, 2), "f4", external=[(str(pipe), 0, size)])

    def linked(group: h5py.Group) -> None:
        group["0"] = h5py.ExternalLink(str(secret), "/0")

    def linked_softly(group: h5py.Group) -> None:
        group["there"] = h5py.ExternalLink(str(secret), "/")
        group["0"] = h5py.SoftLink(f"{group.name}/there/0")

    def virtual(group: h5py.Group) -> None:
        layout = h5py.VirtualLayout((4, 2), "f4")
        layout[:] = h5py.VirtualSource(str(secret), "0", (4, 2))
        group.create_virtual_dataset("0", layout)

    def virtual_by_number(group: h5py.Group) -> None:
        endless = h5py.h5s.create_simple((4, 2), (h5py.h5s.UNLIMITED, 2))
        endless.select_hyperslab((0, 0), (h5py.h5s.UNLIMITED, 1), (4, 1), (4, 2))
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        pipe = secret.with_name("pipe%b")
        plan.set_virtual(endless, os.fsencode(pipe), b"0", h5py.h5s.create_simple((4, 2)))
        h5py.h5d.create(group.id, b"0", h5py.h5t.IEEE_F32LE, endless, plan)

    def unused(group: h5py.Group) -> None:
        group["0"] = np.ones((4, 2), "f4")
        group.create_group("deep/deeper")["down"] = h5py.ExternalLink(str(secret), "/")

    kinds = (stored, stored_in_parts, in_a_pipe, linked, linked_softly, virtual, unused)
    found = {kind.__name__.replace("_", " "): _dense(kind) for kind in (*kinds, virtual_by_number)}

    def whole(path: Path) -> None:
        h5(functional(layer("Flatten", {})), path)
        with h5py.File(path, "r+") as file:
            del file.attrs["keras_version"], file["model_weights"]
            file["model_weights"] = h5py.ExternalLink(str(secret), "/group")

    return {**found, "the group of weights": whole}


def within_itself(path: Path) -> None:
    """A file whose links lead to places in the file itself, round in a circle among them."""

    def weights(group: h5py.Group) -> None:
        group["kept"] = np.arange(8, dtype="f4").reshape(4, 2)
        group["0"] = h5py.SoftLink(f"{group.name}/kept")
        group["again"] = group["kept"]
        group["round"] = group
        group["nowhere"] = h5py.SoftLink("/nowhere")

    _dense(weights)(path)

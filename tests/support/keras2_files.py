"""Model files as Keras 1.2 to 2.15 wrote them, each with the results that its writer computed.

Files of recent versions are written by tf_keras itself. Those of older versions are spelled out:
the words of their architecture and the layout of their weights are of that version, and a model
of today's words with the same weights computes the results.
"""

import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import tf_keras
from tf_keras import layers

Arrays = Sequence[np.ndarray]
Write = Callable[[Path], Any]


@dataclass(frozen=True)
class Recorded:
    """A file of some version of Keras.

    Attributes:
        suffix: of its name.
        write: writes the file; gives a model of tf_keras that computes what its writer did.
        ids: how many different ids the inputs hold; 0 for real numbers.
    """

    suffix: str
    write: Write
    ids: int = 0

    def batch(self, model: Any, samples: int = 3) -> list[np.ndarray]:
        """Samples for the inputs of `model`; open sizes are 6."""
        random = np.random.default_rng(0)
        found = []
        for tensor in model.inputs:
            sizes = [size or 6 for size in tensor.shape[1:]]
            shape = (tensor.shape[0] or samples, *sizes)
            values = random.integers(0, self.ids, shape) if self.ids else random.normal(size=shape)
            found.append(values.astype(tensor.dtype.as_numpy_dtype))
        return found


def filled(model: Any) -> Any:
    """The model with weights that are no initializer's, positive where a variance must be."""
    random = np.random.default_rng(1)
    for weight in model.weights:
        spread = random.normal(0, 0.4, weight.shape)
        weight.assign(np.abs(spread) + 0.3 if "variance" in weight.name else spread)
    return model


def write_h5(
    path: Path,
    config: object,
    weights: Mapping[str, Arrays],
    version: str,
    backend: str = "tensorflow",
) -> None:
    """An HDF5 file of an old Keras: its architecture, and weights by layer."""
    keras_1 = version.startswith("1")
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = json.dumps(config).encode()
        file.attrs["keras_version"] = version.encode()
        group = file.create_group("model_weights")
        if not keras_1:
            group.attrs["keras_version"] = version.encode()
            group.attrs["backend"] = backend.encode()
        group.attrs["layer_names"] = [name.encode() for name in weights]
        for name, arrays in weights.items():
            layer = group.create_group(name)
            names = [f"{name}/weight_{index}:0".encode() for index in range(len(arrays))]
            layer.attrs["weight_names"] = names
            for key, array in zip(names, arrays, strict=True):
                layer.create_dataset(key.decode(), data=array)


def own_weights(model: Any) -> dict[str, Arrays]:
    """The weights of each layer of a model, in tf_keras's own layout."""
    return {layer.name: layer.get_weights() for layer in model.layers}


def sequential(*stack: Any) -> Any:
    """A filled Sequential model."""
    return filled(tf_keras.Sequential(list(stack)))


def _saved(build: Callable[[], Any], version: str) -> Write:
    """A file that tf_keras itself writes as that version did."""

    def write(path: Path) -> Any:
        model = filled(build())
        model.compile("adam", "mse")
        # Keras went by the name; people rename.
        written = path.with_name("written.h5" if path.suffix != ".keras" else "written.keras")
        model.save(written)
        written.rename(path)
        if path.suffix != ".keras":
            with h5py.File(path, "r+") as file:
                file.attrs["keras_version"] = file["model_weights"].attrs["keras_version"] = version
        return model

    return write


def _misnamed(build: Callable[[], Any]) -> Write:
    def write(path: Path) -> Any:
        model = filled(build())
        model.save(path.with_name("written.h5"))
        path.with_name("written.h5").rename(path)
        return model

    return write


def _archived(build: Callable[[], Any], version: str, separator: str) -> Write:
    """An archive whose weights lie where Keras 2.12 to 2.14 put them, on Windows or elsewhere."""

    def write(path: Path) -> Any:
        model = filled(build())
        model.compile("adam", "mse")
        model.save(path.with_name("written.keras"))
        with zipfile.ZipFile(path.with_name("written.keras")) as old:
            config, weights = old.read("config.json"), io.BytesIO(old.read("model.weights.h5"))
        moved = io.BytesIO()
        with h5py.File(weights) as source, h5py.File(moved, "w") as target:
            places: dict[str, str] = {"": ""}
            taken: dict[tuple[str, str], int] = {}

            def place(path: str) -> str:
                """Layers with weights took two numbers."""
                if path not in places:
                    parent, _, name = path.rpartition("/")
                    if parent.rpartition("/")[2] == "layers":
                        kind, _ = _by_number(name)
                        number = taken.get((parent, kind), 0)
                        taken[parent, kind] = number + (2 if _has_weights(source[path]) else 1)
                        name = f"{kind}_{number}" if number else kind
                    elif name == "layers":
                        name = "_layer_checkpoint_dependencies"
                    places[path] = f"{place(parent)}{separator}{name}".lstrip(separator)
                return places[path]

            names: list[str] = []
            source.visit(names.append)
            for name in sorted(names, key=lambda name: [_by_number(p) for p in name.split("/")]):
                folder, _, end = name.rpartition("/vars/")
                moved_to = f"{place(folder)}/vars/{end}" if end else None
                if moved_to and isinstance(source[name], h5py.Dataset):
                    target[moved_to] = source[name][()]
                elif not end and not name.endswith("vars"):
                    place(name)
                    target.require_group(f"{place(name)}/vars")
        with zipfile.ZipFile(path, "w") as new:
            new.writestr("metadata.json", json.dumps({"keras_version": version}))
            new.writestr("config.json", config)
            new.writestr("model.weights.h5", moved.getvalue())
        path.with_name("written.keras").unlink()
        return model

    return write


def _has_weights(group: Any) -> bool:
    found: list[object] = []
    group.visititems(lambda _, item: found.append(item) if isinstance(item, h5py.Dataset) else None)
    return bool(found)


def _by_number(name: str) -> tuple[str, int]:
    kind, _, number = name.rpartition("_")
    return (kind, int(number)) if kind and number.isdecimal() else (name, 0)


def _lstm_stack() -> Any:
    return tf_keras.Sequential(
        [
            layers.LSTM(5, return_sequences=True, input_shape=(4, 3)),
            layers.Bidirectional(layers.GRU(3, return_sequences=True)),
            layers.TimeDistributed(layers.Dense(4, activation="relu")),
            layers.SimpleRNN(3),
            layers.Dropout(0.5),
            layers.Dense(2, activation="softmax"),
        ]
    )


def _masked_lstm() -> Any:
    ids = layers.Input((None,), dtype="int32")
    hidden = layers.Embedding(9, 4, mask_zero=True)(ids)
    return tf_keras.Model(ids, layers.Dense(2)(layers.Bidirectional(layers.LSTM(3))(hidden)))


def _conv_lstm() -> Any:
    return tf_keras.Sequential(
        [
            layers.ConvLSTM2D(2, 2, return_sequences=True, input_shape=(3, 5, 5, 1)),
            layers.TimeDistributed(layers.Flatten()),
            layers.GlobalAveragePooling1D(),
            layers.Dense(2),
        ]
    )


def _teachable_machine() -> Any:
    """A Sequential of Sequentials, the first of them round a functional model."""
    image = layers.Input((8, 8, 3))
    hidden = layers.ReLU(6.0)(layers.BatchNormalization()(layers.Conv2D(3, 2, strides=2)(image)))
    hidden = layers.Add()([hidden, layers.DepthwiseConv2D(3, padding="same")(hidden)])
    features = tf_keras.Sequential([tf_keras.Model(image, hidden), layers.GlobalAveragePooling2D()])
    head = tf_keras.Sequential(
        [
            layers.Dense(4, activation="relu", input_shape=(3,)),
            layers.Dense(2, activation="softmax", use_bias=False),
        ]
    )
    return tf_keras.Sequential([features, head])


def _seq2seq() -> Any:
    source, target = layers.Input((None, 3)), layers.Input((None, 2))
    _, *states = layers.LSTM(4, return_state=True)(source)
    decoded, _, _ = layers.LSTM(4, return_sequences=True, return_state=True)(
        target, initial_state=states
    )
    return tf_keras.Model([source, target], layers.Dense(2, activation="softmax")(decoded))


def _operators() -> Any:
    import tensorflow as tf

    x, y = layers.Input((4,), name="left"), layers.Input((4,), name="right")
    hidden = tf.concat([x * 2.0 + y, tf.nn.relu(x - 1.0)], axis=-1)[:, 1:]
    return tf_keras.Model([x, y], layers.Dense(2)(tf.math.l2_normalize(hidden, axis=-1)))


def _half() -> Any:
    x = layers.Input((6,))
    hidden = layers.Dense(4, dtype="mixed_float16")(x)
    return tf_keras.Model(x, layers.Activation("softmax", dtype="float32")(hidden))


def _keras_1_images(path: Path) -> Any:
    """A Sequential model of Keras 1.2 on images in TensorFlow's order."""
    model = sequential(
        layers.Conv2D(3, (2, 3), padding="same", activation="relu", input_shape=(6, 6, 2)),
        layers.BatchNormalization(),
        layers.MaxPooling2D(),
        layers.Dropout(0.25),
        layers.Flatten(),
        layers.Dense(4, activation="softmax"),
    )
    plain = dict.fromkeys(
        "W_constraint W_regularizer activity_regularizer b_constraint b_regularizer".split()
    )
    config = [
        {
            "class_name": "Convolution2D",
            "config": {
                **plain,
                "activation": "relu",
                "batch_input_shape": [None, 6, 6, 2],
                "bias": True,
                "border_mode": "same",
                "dim_ordering": "tf",
                "init": "glorot_uniform",
                "input_dtype": "float32",
                "name": "convolution2d_1",
                "nb_col": 3,
                "nb_filter": 3,
                "nb_row": 2,
                "subsample": [1, 1],
                "trainable": True,
            },
        },
        {
            "class_name": "BatchNormalization",
            "config": {
                "axis": -1,
                "beta_regularizer": None,
                "epsilon": 0.001,
                "gamma_regularizer": None,
                "mode": 0,
                "momentum": 0.99,
                "name": "batchnormalization_1",
                "trainable": True,
            },
        },
        {
            "class_name": "MaxPooling2D",
            "config": {
                "border_mode": "valid",
                "dim_ordering": "tf",
                "name": "maxpooling2d_1",
                "pool_size": [2, 2],
                "strides": [2, 2],
                "trainable": True,
            },
        },
        {"class_name": "Dropout", "config": {"name": "dropout_1", "p": 0.25, "trainable": True}},
        {"class_name": "Flatten", "config": {"name": "flatten_1", "trainable": True}},
        {
            "class_name": "Dense",
            "config": {
                **plain,
                "activation": "softmax",
                "bias": True,
                "init": "glorot_uniform",
                "input_dim": None,
                "name": "dense_1",
                "output_dim": 4,
                "trainable": True,
            },
        },
    ]
    weights = [layer.get_weights() for layer in model.layers]
    names = [layer["config"]["name"] for layer in config]
    write_h5(
        path,
        {"class_name": "Sequential", "config": config},
        dict(zip(names, weights, strict=True)),
        "1.2.2",
    )
    return model


def _keras_1_recurrent(path: Path) -> Any:
    """An LSTM of Keras 1 kept three arrays for each of its gates, in the order i, c, f, o."""
    model = sequential(
        layers.Embedding(9, 4, input_length=5),
        layers.LSTM(3, recurrent_activation="hard_sigmoid", return_sequences=True),
        layers.Bidirectional(layers.GRU(2, recurrent_activation="hard_sigmoid", reset_after=False)),
        layers.Dense(2),
    )
    recurrent = {
        "U_regularizer": None,
        "W_regularizer": None,
        "activation": "tanh",
        "b_regularizer": None,
        "consume_less": "cpu",
        "dropout_U": 0.0,
        "dropout_W": 0.0,
        "go_backwards": False,
        "init": "glorot_uniform",
        "inner_activation": "hard_sigmoid",
        "inner_init": "orthogonal",
        "input_length": None,
        "stateful": False,
        "trainable": True,
        "unroll": False,
    }
    gru = {**recurrent, "input_dim": 3, "name": "gru_1", "output_dim": 2, "return_sequences": False}
    config = [
        {
            "class_name": "Embedding",
            "config": {
                "W_constraint": None,
                "W_regularizer": None,
                "activity_regularizer": None,
                "batch_input_shape": [None, 5],
                "dropout": 0.0,
                "init": "uniform",
                "input_dim": 9,
                "input_dtype": "int32",
                "input_length": 5,
                "mask_zero": False,
                "name": "embedding_1",
                "output_dim": 4,
                "trainable": True,
            },
        },
        {
            "class_name": "LSTM",
            "config": {
                **recurrent,
                "forget_bias_init": "one",
                "input_dim": 4,
                "name": "lstm_1",
                "output_dim": 3,
                "return_sequences": True,
            },
        },
        {
            "class_name": "Bidirectional",
            "config": {
                "layer": {"class_name": "GRU", "config": gru},
                "merge_mode": "concat",
                "name": "bidirectional_1",
                "trainable": True,
            },
        },
        {
            "class_name": "Dense",
            "config": {
                "activation": "linear",
                "bias": True,
                "init": "glorot_uniform",
                "input_dim": None,
                "name": "dense_1",
                "output_dim": 2,
                "trainable": True,
            },
        },
    ]
    embedding, lstm, both, dense = (layer.get_weights() for layer in model.layers)
    gates = [np.split(array, 4, axis=-1) for array in lstm]
    of_gates = [gates[kind][gate] for gate in (0, 2, 1, 3) for kind in range(3)]
    thirds = [np.split(array, 3, axis=-1) for array in both]
    of_grus = [
        thirds[3 * way + kind][gate] for way in range(2) for gate in range(3) for kind in range(3)
    ]
    weights = {
        "embedding_1": embedding, "lstm_1": of_gates, "bidirectional_1": of_grus, "dense_1": dense
    }  # fmt: skip
    write_h5(path, {"class_name": "Sequential", "config": config}, weights, "1.2.1")
    return model


def _keras_1_branches(path: Path) -> Any:
    """Two Sequential models that Keras 1 joined by a Merge layer; weights are listed flat."""
    left, right = layers.Input((3,)), layers.Input((4,))
    first, second = layers.Dense(5, activation="tanh"), layers.Dense(5)
    last = layers.Dense(2)
    joined = layers.Concatenate()([first(left), second(right)])
    model = filled(tf_keras.Model([left, right], last(joined)))

    def dense(name: str, units: int, activation: str, shape: Sequence[int | None]) -> object:
        config = {"activation": activation, "bias": True, "name": name, "output_dim": units}
        extra = {"batch_input_shape": [None, *shape], "init": "glorot_uniform"} if shape else {}
        return {"class_name": "Dense", "config": {**config, **extra, "W_regularizer": None}}

    def branch(layer: object) -> object:
        return {"class_name": "Sequential", "config": [layer]}

    merge = {
        "arguments": {},
        "concat_axis": -1,
        "dot_axes": -1,
        "layers": [
            branch(dense("dense_1", 5, "tanh", [3])),
            branch(dense("dense_2", 5, "linear", [4])),
        ],
        "mode": "concat",
        "mode_type": "raw",
        "name": "merge_1",
        "output_mask": None,
        "output_shape": None,
    }
    config = [
        {"class_name": "Merge", "config": merge},
        dense("dense_3", 2, "linear", []),
    ]
    weights = {
        "dense_1": first.get_weights(),
        "dense_2": second.get_weights(),
        "merge_1": [],
        "dense_3": last.get_weights(),
    }
    write_h5(path, {"class_name": "Sequential", "config": config}, weights, "1.1.0")
    return model


def _without_input_layer(model: Any, listed: bool) -> object:
    """The architecture of a Sequential model as Keras up to 2.3 wrote it."""
    stack = [
        {"class_name": type(layer).__name__, "config": layer.get_config()} for layer in model.layers
    ]
    return {
        "class_name": "Sequential",
        "config": stack if listed else {"name": "sequential_1", "layers": stack},
    }


def _spelled(
    build: Callable[[], Any], version: str, listed: bool = False, backend: str = "tensorflow"
) -> Write:
    def write(path: Path) -> Any:
        model = filled(build())
        weights = own_weights(model)
        if backend == "theano":
            turned = weights["turned"]
            weights["turned"] = [turned[0][::-1, ::-1], *turned[1:]]
        write_h5(path, _without_input_layer(model, listed), weights, version, backend)
        return model

    return write


def _dense_91() -> Any:
    return tf_keras.Sequential(
        [
            layers.Dense(5, activation="relu", batch_input_shape=(None, 91)),
            layers.Dense(3, activation="softmax"),
        ]
    )


def _turned_kernels() -> Any:
    return tf_keras.Sequential(
        [
            layers.Conv2D(3, 3, activation="relu", input_shape=(6, 6, 2), name="turned"),
            layers.Flatten(),
            layers.Dense(2),
        ]
    )


def _old_gru() -> Any:
    return tf_keras.Sequential(
        [
            layers.GRU(4, reset_after=False, recurrent_activation="hard_sigmoid",
                       input_shape=(5, 3)),
            layers.Dense(2),
        ]
    )  # fmt: skip


def _old_gru_file(path: Path) -> Any:
    """A GRU of Keras 2.1.2, which knew of no `reset_after`."""
    model = filled(_old_gru())
    config: Any = _without_input_layer(model, listed=True)
    known = {"reset_after", "time_major"}
    gru = config["config"][0]["config"]
    config["config"][0]["config"] = {key: gru[key] for key in gru if key not in known}
    write_h5(path, config, own_weights(model), "2.1.2")
    return model


def _cudnn(path: Path) -> Any:
    """CuDNNLSTM and CuDNNGRU: transposed kernels, and two biases for each gate."""
    model = sequential(
        layers.LSTM(3, return_sequences=True, input_shape=(4, 2)),
        layers.Bidirectional(layers.GRU(2, reset_after=True)),
        layers.Dense(2),
    )
    config: Any = _without_input_layer(model, listed=False)
    kept = "name trainable units return_sequences return_state go_backwards stateful"

    def fused(kind: str, inner: Mapping[str, Any]) -> object:
        own = {key: inner[key] for key in [*kept.split(), "batch_input_shape"] if key in inner}
        return {"class_name": kind, "config": own}

    stack = config["config"]["layers"]
    stack[0] = fused("CuDNNLSTM", stack[0]["config"])
    for name in ("layer", "backward_layer"):
        if name in stack[1]["config"]:
            inner = stack[1]["config"][name]["config"]
            stack[1]["config"][name] = fused("CuDNNGRU", inner)
    weights = own_weights(model)
    lstm, both, _ = (layer.name for layer in model.layers)
    kernel, recurrent, bias = weights[lstm]
    halves = np.concatenate([0.25 * bias, 0.75 * bias])
    weights[lstm] = [_fused_kernel(kernel, 4), _transposed(recurrent, 4), halves]
    gru = weights[both]
    weights[both] = [
        array
        for way in (0, 3)
        for array in (
            _fused_kernel(gru[way], 3),
            _transposed(gru[way + 1], 3),
            gru[way + 2].reshape(-1),
        )
    ]
    write_h5(path, config, weights, "2.2.4")
    return model


def _fused_kernel(kernel: np.ndarray, gates: int) -> np.ndarray:
    """cuDNN keeps each gate's kernel transposed, its bytes in the shape of the plain one."""
    return np.hstack([part.T.reshape(part.shape) for part in np.hsplit(kernel, gates)])


def _transposed(kernel: np.ndarray, gates: int) -> np.ndarray:
    return np.hstack([part.T for part in np.hsplit(kernel, gates)])


FILES: dict[str, Recorded] = {
    "keras-1.1-branches": Recorded(".h5", _keras_1_branches),
    "keras-1.2-images": Recorded(".h5", _keras_1_images),
    "keras-1.2-recurrent": Recorded(".h5", _keras_1_recurrent, ids=9),
    "keras-2.0-list": Recorded(".hdf5", _spelled(_dense_91, "2.0.8", listed=True)),
    "keras-2.0-theano": Recorded(".h5", _spelled(_turned_kernels, "2.0.6", backend="theano")),
    "keras-2.1-gru": Recorded(".h5", _old_gru_file),
    "keras-2.2-cudnn": Recorded(".h5", _cudnn),
    "keras-2.3-dense": Recorded(".h5", _spelled(_dense_91, "2.3.1")),
    "keras-2.3-images": Recorded(".h5", _spelled(_turned_kernels, "2.3.0-tf")),
    "keras-2.4-nested": Recorded(".h5", _saved(_teachable_machine, "2.4.0")),
    "keras-2.6-lstm": Recorded(".h5", _saved(_lstm_stack, "2.6.0")),
    "keras-2.6-masked": Recorded(".h5", _saved(_masked_lstm, "2.6.0"), ids=9),
    "keras-2.8-conv_lstm": Recorded(".h5", _saved(_conv_lstm, "2.8.0")),
    "keras-2.10-seq2seq": Recorded(".hdf5", _saved(_seq2seq, "2.10.0")),
    "keras-2.10-operators": Recorded(".h5", _saved(_operators, "2.10.0")),
    "keras-2.10-mixed": Recorded(".h5", _saved(_half, "2.10.0")),
    "keras-2.11-as-.keras": Recorded(".keras", _misnamed(_lstm_stack)),
    "keras-2.13-archive": Recorded(".keras", _archived(_lstm_stack, "2.13.1", "/")),
    "keras-2.13-windows": Recorded(".keras", _archived(_teachable_machine, "2.13.1", "\\")),
    "keras-2.15-archive": Recorded(".keras", _saved(_seq2seq, "2.15.0")),
    "keras-2.15-operators": Recorded(".keras", _saved(_operators, "2.15.0")),
}

"""Model files as Keras 1.2 to 2.15 wrote them, each with the results that its writer computed.

Files of recent versions are written by tf_keras itself. Those of older versions are spelled out:
the words of their architecture and the layout of their weights are of that version, and a model
of today's words with the same weights computes the results.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras
from keras2_writing import (
    Recorded,
    Write,
    archived,
    filled,
    own_weights,
    saved,
    sequential,
    write_h5,
)
from repository import SUPPORT
from tf_keras import layers


def recorded(name: str) -> Any:
    """An architecture in the words of Keras 1."""
    return json.loads((SUPPORT / "recorded" / f"keras_1_{name}.json").read_text())


def keras_1_images(path: Path) -> Any:
    """A Sequential model of Keras 1.2 on images in TensorFlow's order."""
    model = sequential(
        layers.Conv2D(3, (2, 3), padding="same", activation="relu", input_shape=(6, 6, 2)),
        layers.BatchNormalization(),
        layers.MaxPooling2D(),
        layers.Dropout(0.25),
        layers.Flatten(),
        layers.Dense(4, activation="softmax"),
    )
    config = recorded("images")
    weights = [layer.get_weights() for layer in model.layers]
    names = [layer["config"]["name"] for layer in config["config"]]
    write_h5(path, config, dict(zip(names, weights, strict=True)), "1.2.2")
    return model


def keras_1_recurrent(path: Path) -> Any:
    """An LSTM of Keras 1 kept three arrays for each of its gates, in the order i, c, f, o."""
    model = sequential(
        layers.Embedding(9, 4, input_length=5),
        layers.LSTM(3, recurrent_activation="hard_sigmoid", return_sequences=True),
        layers.Bidirectional(layers.GRU(2, recurrent_activation="hard_sigmoid", reset_after=False)),
        layers.Dense(2),
    )
    config = recorded("recurrent")
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
    write_h5(path, config, weights, "1.2.1")
    return model


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
    x, y = layers.Input((4,), name="left"), layers.Input((4,), name="right")
    hidden = tf.concat([x * 2.0 + y, tf.nn.relu(x - 1.0)], axis=-1)[:, 1:]
    return tf_keras.Model([x, y], layers.Dense(2)(tf.math.l2_normalize(hidden, axis=-1)))


def _half() -> Any:
    x = layers.Input((6,))
    hidden = layers.Dense(4, dtype="mixed_float16")(x)
    return tf_keras.Model(x, layers.Activation("softmax", dtype="float32")(hidden))


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


def _ids(path: Path) -> Any:
    """An Embedding of Keras 2.0.4, whose dtype is its inputs' and not its own."""
    model = sequential(
        layers.Embedding(9, 4, input_length=5),
        layers.GRU(3, reset_after=False, recurrent_activation="hard_sigmoid"),
        layers.Dense(2),
    )
    config: Any = _without_input_layer(model, listed=True)
    config["config"][0]["config"]["dtype"] = "int32"
    write_h5(path, config, own_weights(model), "2.0.4")
    return model


def _with_metric() -> Any:
    """A metric of the model itself is a layer with variables, and no part of its training."""
    x = layers.Input((4,))
    hidden = layers.Dense(3)(x)
    model = tf_keras.Model(x, layers.Dense(2)(hidden))
    model.add_loss(tf.reduce_mean(hidden))
    model.add_metric(tf.reduce_sum(hidden), name="total")
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
    "keras-1.2-images": Recorded(".h5", keras_1_images),
    "keras-1.2-recurrent": Recorded(".h5", keras_1_recurrent, ids=9),
    "keras-2.0-ids": Recorded(".h5", _ids, ids=9),
    "keras-2.0-list": Recorded(".hdf5", _spelled(_dense_91, "2.0.8", listed=True)),
    "keras-2.0-theano": Recorded(".h5", _spelled(_turned_kernels, "2.0.6", backend="theano")),
    "keras-2.1-gru": Recorded(".h5", _old_gru_file),
    "keras-2.2-cudnn": Recorded(".h5", _cudnn),
    "keras-2.3-dense": Recorded(".h5", _spelled(_dense_91, "2.3.1")),
    "keras-2.4-nested": Recorded(".h5", saved(_teachable_machine, "2.4.0")),
    "keras-2.6-masked": Recorded(".h5", saved(_masked_lstm, "2.6.0"), ids=9),
    "keras-2.10-seq2seq": Recorded(".hdf5", saved(_seq2seq, "2.10.0")),
    "keras-2.10-operators": Recorded(".h5", saved(_operators, "2.10.0")),
    "keras-2.10-mixed": Recorded(".h5", saved(_half, "2.10.0")),
    "keras-2.13-archive": Recorded(".keras", archived(_lstm_stack, "2.13.1", "/")),
    "keras-2.13-windows": Recorded(".keras", archived(_teachable_machine, "2.13.1", "\\")),
    "keras-2.15-metric": Recorded(".keras", saved(_with_metric, "2.15.0")),
    "keras-2.15-operators": Recorded(".keras", saved(_operators, "2.15.0")),
}

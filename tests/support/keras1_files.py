"""Model files of Keras 1, spelled out."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from keras2_writing import sequential, write_h5
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

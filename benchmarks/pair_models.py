"""Small Keras models whose conversions `verdict_pairs.py` judges: sound, broken, and offset ones.

The sound ones are trained on the data of scikit-learn, on pictures of shapes, series and tokens.
The broken ones lose something in FP16 by arithmetic: offsets, overflow, underflow, long sums,
differences of large numbers. The offset ones have a number beside an offset at an end: outputs in
units of their own, raw inputs that the model centres itself, constants added inside. Needs the
checkout's tests/support/.
"""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from drawn_shapes import shapes
from keras import layers, ops
from sklearn import datasets

SAMPLES = 1000

# A model and its inputs.
Built = tuple[keras.Model, Any]
# A layer or a function on tensors.
Part = Callable[[Any], Any]

CLASSES = "sparse_categorical_crossentropy"
LABELS = "binary_crossentropy"


def built(build: Callable[[], Built]) -> Built:
    """The model with the same weights and inputs in each run."""
    keras.utils.set_random_seed(0)
    return build()


def _logits() -> keras.losses.Loss:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _trained(
    inputs: Any, outputs: Any, x: Any, y: Any, loss: Any, epochs: int, cut: str = ""
) -> keras.Model:
    """A trained model, or its part up to a layer."""
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.Adam(3e-3), loss)
    model.fit(x, y, epochs=epochs, batch_size=64, verbose=0)
    return keras.Model(inputs, model.get_layer(cut).output) if cut else model


def _standard(x: np.ndarray) -> np.ndarray:
    return ((x - x.mean(axis=0)) / (x.std(axis=0) + 1e-9)).astype(np.float32)


def _resampled(x: np.ndarray) -> np.ndarray:
    """As many samples as are needed, each with noise of its own."""
    rng = np.random.default_rng(3)
    drawn = x[rng.integers(0, len(x), SAMPLES)]
    return (drawn + 0.05 * rng.standard_normal(drawn.shape)).astype(np.float32)


def _table(data: tuple[Any, Any], head: Part, loss: Any, target: Part = np.asarray) -> Built:
    """A table with a number or a class for each row."""
    x, y = _standard(data[0]), data[1]
    inputs = keras.Input(x.shape[1:], name="x")
    hidden = layers.Dense(64, "relu")(layers.Dense(64, "relu")(inputs))
    model = _trained(inputs, head(hidden), x, target(y), loss, 5000 // len(x) + 10)
    return model, _resampled(x)


def _loaded(name: str) -> tuple[np.ndarray, np.ndarray]:
    return getattr(datasets, f"load_{name}")(return_X_y=True)


def _friedman(number: int, spread: float = 1.0, offset: float = 0.0) -> Built:
    data = getattr(datasets, f"make_friedman{number}")(2000, random_state=1)

    def head(hidden: Any) -> Any:
        return layers.Rescaling(spread, offset)(layers.Dense(1)(hidden))

    return _table(data, head, "mse", lambda y: _standard(y) * spread + offset)


def _pinball(truth: Any, found: Any) -> Any:
    shares = ops.convert_to_tensor([0.1, 0.5, 0.9])
    error = truth - found
    return ops.mean(ops.maximum(shares * error, (shares - 1) * error))


def _counts(y: np.ndarray) -> np.ndarray:
    return np.random.default_rng(0).poisson(np.exp(y / 8))


def _digits(
    head: Part, loss: Any, target: Callable[[Any, Any], Any] = lambda _, y: y, cut: str = ""
) -> Built:
    """Pictures of digits, 8 x 8."""
    data = datasets.load_digits()
    x = (data.images[..., None] / 16).astype(np.float32)
    inputs = keras.Input((8, 8, 1), name="x")
    hidden = layers.BatchNormalization()(layers.Conv2D(16, 3, activation="relu")(inputs))
    hidden = layers.Conv2D(32, 3, activation="relu", name="features")(hidden)
    outputs = head(layers.Flatten()(hidden))
    return _trained(inputs, outputs, x, target(x, data.target), loss, 8, cut), _resampled(x)


def _autoencoder(code: int, result: Callable[[Any, Any, Any], Any]) -> Built:
    x = (datasets.load_digits().data / 16).astype(np.float32)
    inputs = keras.Input((64,), name="x")
    middle = layers.Dense(code)(layers.Dense(32, "relu")(inputs))
    decoded = layers.Dense(64, "sigmoid")(layers.Dense(32, "relu")(middle))
    model = _trained(inputs, decoded, x, x, "mse", 20)
    found = result(inputs, middle, decoded)
    return (model if found is decoded else keras.Model(inputs, found)), _resampled(x)


def _pictures(head: Part, loss: Any, target: Callable[[Any, Any, Any], Any]) -> Built:
    """Noisy pictures of a square and a disc, 24 x 24."""
    images, masks, corners = shapes(1200, 1)
    inputs = keras.Input((24, 24, 1), name="x")
    hidden = layers.Conv2D(16, 3, padding="same", activation="relu")(inputs)
    hidden = layers.Conv2D(16, 3, padding="same", activation="relu", dilation_rate=2)(hidden)
    truth = target(images, masks, corners)
    return _trained(inputs, head(hidden), images, truth, loss, 4), shapes(SAMPLES, 9)[0]


def _corners(hidden: Any) -> Any:
    small = layers.Flatten()(layers.MaxPooling2D(4)(hidden))
    return layers.Dense(8)(layers.Dense(64, "relu")(small))


def _centres(_images: Any, _masks: Any, corners: np.ndarray) -> np.ndarray:
    """A bump at the centre of each of both shapes."""
    rows, columns = np.mgrid[:24, :24][:, None, :, :, None] / 24
    centre = ((corners[..., :2] + corners[..., 2:]) / 2)[:, None, None]
    away = (rows - centre[..., 0]) ** 2 + (columns - centre[..., 1]) ** 2
    return np.exp(-away / 0.005).astype(np.float32)


def _depths(_images: Any, masks: np.ndarray, _corners: Any) -> np.ndarray:
    """Metres: a floor that goes away, a far square and a near disc."""
    floor = np.linspace(3, 7, 24, dtype=np.float32)[None, :, None, None]
    return floor + np.array([0, 2, -1.5], np.float32)[masks][..., None]


def _waves(samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy waves: 32 steps, and the eight that follow."""
    rng = np.random.default_rng(seed)
    phase, rate = rng.uniform(0, 6.3, (samples, 1)), rng.uniform(0.1, 0.6, (samples, 1))
    series = np.sin(phase + rate * np.arange(40)) + 0.1 * rng.standard_normal((samples, 40))
    series = series.astype(np.float32)
    return series[:, :32, None], series[:, 32:]


def _series(head: Part, loss: Any, target: Callable[[Any, Any], Any] = lambda _, y: y) -> Built:
    x, y = _waves(1500, 0)
    inputs = keras.Input((32, 1), name="x")
    return _trained(inputs, head(inputs), x, target(x, y), loss, 4), _waves(SAMPLES, 5)[0]


def _tokens(head: Part, loss: Any, target: Part) -> Built:
    """Walks over 60 tokens."""
    rng = np.random.default_rng(2)
    x = (np.cumsum(rng.integers(0, 3, (3000, 16)), axis=1) % 60).astype(np.int32)
    inputs = keras.Input((16,), dtype="int32", name="x")
    hidden = head(layers.Embedding(60, 32)(inputs))
    return _trained(inputs, hidden, x[:2000], target(x[:2000]), loss, 4), x[2000:]


def _attention(hidden: Any) -> Any:
    for _ in range(2):
        attended = layers.MultiHeadAttention(2, 16)(hidden, hidden)
        hidden = layers.LayerNormalization()(hidden + attended)
        fed = layers.Dense(32)(layers.Dense(64, "gelu")(hidden))
        hidden = layers.LayerNormalization()(hidden + fed)
    return layers.Dense(3, "softmax")(layers.GlobalAveragePooling1D()(hidden))


def _ratings() -> Built:
    """Stars that users give to films."""
    rng = np.random.default_rng(4)
    users, films = rng.standard_normal((200, 6)), rng.standard_normal((300, 6))
    one, other = rng.integers(0, 200, 6000), rng.integers(0, 300, 6000)
    stars = np.clip(3.5 + 0.5 * (users[one] * films[other]).sum(axis=1), 1, 5)
    inputs = {name: keras.Input((1,), dtype="int32", name=name) for name in ("user", "film")}
    user = layers.Flatten()(layers.Embedding(200, 12)(inputs["user"]))
    film = layers.Flatten()(layers.Embedding(300, 12)(inputs["film"]))
    hidden = layers.Dense(16, "relu")(layers.Concatenate()([user, film]))
    score = layers.Add()([layers.Dot(1)([user, film]), layers.Dense(1)(hidden)])
    x = {"user": one[:, None].astype(np.int32), "film": other[:, None].astype(np.int32)}
    model = _trained(inputs, layers.Rescaling(1.0, 3.5)(score), x, stars, "mse", 8)
    return model, {name: each[:SAMPLES] for name, each in x.items()}


def _untrained(shape: tuple[int, ...], head: Part, spread: float = 1, mean: float = 0) -> Built:
    inputs = keras.Input(shape, name="x")
    x = mean + spread * np.random.default_rng(6).standard_normal((SAMPLES, *shape))
    return keras.Model(inputs, head(inputs)), x.astype(np.float32)


def _hidden(head: Part) -> Built:
    return _untrained((12,), lambda x: head(layers.Dense(32, "relu")(layers.Dense(32, "relu")(x))))


def _map(head: Part) -> Built:
    return _untrained(
        (16, 16, 2), lambda x: head(layers.Conv2D(8, 3, padding="same", activation="relu")(x))
    )


def _in_units(
    spread: float,
    offset: Any,
    outputs: int = 1,
    body: Part = lambda x: layers.Dense(32, "relu")(layers.Dense(32, "relu")(x)),
    shape: tuple[int, ...] = (12,),
) -> Built:
    """A last Dense layer with weights and a bias as if it had been trained to these units."""
    model, x = _untrained(shape, lambda x: layers.Dense(outputs)(body(x)))
    kernel, bias = model.layers[-1].get_weights()
    varies = np.asarray(model.predict(x, verbose=0)).std(axis=0)
    model.layers[-1].set_weights([kernel * spread / varies, bias * 0 + offset])
    return model, x


def _between_products(scale: float) -> Built:
    """Hidden values that are `scale` times as large as usual, in front of a norm."""

    def head(x: Any) -> Any:
        large = ops.relu(Dense(64)(Dense(64)(x) * scale))
        return Dense(4)(Dense(64, "relu")(layers.LayerNormalization(epsilon=0.0)(large)))

    return _untrained((16,), head)


def _raw(part: Part, inputs: int, spread: float, mean: float) -> Built:
    """Raw numbers, which the model centres itself."""
    return _untrained((inputs,), lambda x: Dense(1)(Dense(32, "tanh")(part(x))), spread, mean)


def _normalized(spread: float, mean: float) -> Built:
    return _raw(layers.Normalization(mean=mean, variance=spread**2), 8, spread, mean)


def _angles(x: Any) -> Any:
    """Sines of time and frequency."""
    angles = x * np.geomspace(1, 0.01, 16).astype(np.float32)
    return ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)


def _kelvin_inside(x: Any) -> Any:
    """An offset that the model adds and takes away again before its next layer."""
    kelvin = layers.Rescaling(8.0, 290.0)(layers.Dense(16, "tanh")(x))
    return layers.Rescaling(0.125, -290.0 / 8)(kelvin)


def _image_features(x: Any) -> Any:
    hidden = layers.Conv2D(32, 3, activation="relu")(layers.Conv2D(16, 3, activation="relu")(x))
    return layers.GlobalAveragePooling2D()(hidden)


def _attended(x: Any) -> Any:
    asked = layers.Dense(16)(x) * 60.0
    return ops.matmul(ops.softmax(ops.matmul(asked, ops.transpose(x, (0, 2, 1)))), x)


def _around(x: Any) -> Any:
    """Squared distance of points that lie beside each other."""
    place = ops.full((8,), 5.0)
    return ops.sum((x * 0.01 + place - place) ** 2, axis=-1, keepdims=True)


def _variance(x: Any) -> Any:
    mean = ops.mean(x, axis=-1, keepdims=True)
    return ops.mean(x * x, axis=-1, keepdims=True) - mean * mean


Dense, Conv2D = layers.Dense, layers.Conv2D
SOUND: dict[str, Callable[[], Built]] = {
    "digits, probabilities": lambda: _table(_loaded("digits"), Dense(10, "softmax"), CLASSES),
    "digits, logits": lambda: _table(_loaded("digits"), Dense(10), _logits()),
    "wines": lambda: _table(_loaded("wine"), Dense(3, "softmax"), CLASSES),
    "irises, logits": lambda: _table(_loaded("iris"), Dense(3), _logits()),
    "tumours": lambda: _table(_loaded("breast_cancer"), Dense(1, "sigmoid"), LABELS),
    "diabetes": lambda: _table(_loaded("diabetes"), Dense(1), "mse", _standard),
    "friedman 1": lambda: _friedman(1),
    "friedman 2 in its units": lambda: _friedman(2, 370, 480),
    "friedman 3 in its units": lambda: _friedman(3, 0.3, 1.3),
    "prices": lambda: _friedman(1, 5e3, 2e4),
    "quantiles": lambda: _table(
        datasets.make_friedman1(2000, random_state=1),
        Dense(3),
        _pinball,
        lambda y: np.repeat(_standard(y)[:, None], 3, 1),
    ),
    "counts": lambda: _table(
        datasets.make_friedman1(2000, random_state=1), Dense(1, "softplus"), "poisson", _counts
    ),
    "survival": lambda: _untrained(
        (10,), lambda x: ops.cumprod(1 - 0.2 * Dense(12, "sigmoid")(Dense(32, "relu")(x)), axis=1)
    ),
    "a rare event": lambda: _table(
        datasets.make_classification(4000, 20, n_informative=8, weights=[0.985], random_state=3),
        *(Dense(1, "sigmoid"), LABELS),
    ),
    "pictures of digits": lambda: _digits(Dense(10, "softmax"), CLASSES),
    "log-probabilities": lambda: _digits(
        lambda h: layers.Activation("log_softmax", name="log")(Dense(10)(h)), _logits(), cut="log"
    ),
    "embeddings": lambda: _digits(
        lambda h: Dense(10)(layers.UnitNormalization(name="unit")(Dense(64)(h))),
        _logits(),
        cut="unit",
    ),
    "features": lambda: _digits(Dense(10), _logits(), cut="features"),
    "labels": lambda: _digits(
        Dense(4, "sigmoid"), LABELS, lambda _, y: np.stack([y % 2, y > 4, y % 3 == 0, y == 7], 1)
    ),
    "rare labels": lambda: _digits(
        Dense(8, "sigmoid"), LABELS, lambda _, y: np.eye(10)[y][:, :8] * (np.arange(8) < 3)
    ),
    "a class and the ink": lambda: _digits(
        lambda h: [Dense(10, "softmax", name="digit")(h), Dense(1, name="ink")(h)],
        [CLASSES, "mse"],
        lambda x, y: [y, x.mean(axis=(1, 2, 3))],
    ),
    "a policy and its value": lambda: _digits(
        lambda h: [Dense(10, name="policy")(h), Dense(1, "tanh", name="value")(h)],
        [_logits(), "mse"],
        lambda _, y: [y, np.cos(y)],
    ),
    "ages in years": lambda: _digits(
        lambda h: layers.Rescaling(20.0, 45.0)(Dense(1)(h)), "mae", lambda _, y: 20 + 6.0 * y
    ),
    "poses": lambda: _digits(
        lambda h: layers.Reshape((17, 3))(Dense(51)(h)),
        "mse",
        lambda _, y: np.random.default_rng(0).standard_normal((10, 17, 3))[y],
    ),
    "autoencoder": lambda: _autoencoder(8, lambda _x, _code, decoded: decoded),
    "codes and decoded": lambda: _autoencoder(8, lambda _x, code, decoded: [code, decoded]),
    "anomalies": lambda: _autoencoder(
        4, lambda x, _code, decoded: ops.mean(ops.square(x - decoded), axis=-1, keepdims=True)
    ),
    "segments": lambda: _pictures(Conv2D(3, 1, activation="softmax"), CLASSES, lambda _, m, _c: m),
    "segments, logits": lambda: _pictures(Conv2D(3, 1), _logits(), lambda _, m, _c: m),
    "a mask": lambda: _pictures(
        Conv2D(1, 1, activation="sigmoid"), LABELS, lambda _, m, _c: (m > 0)[..., None]
    ),
    "pictures without noise": lambda: _pictures(
        Conv2D(1, 3, padding="same"), "mse", lambda x, _, _c: x.clip(0, 1)
    ),
    "pictures up to 255": lambda: _pictures(
        lambda h: layers.Rescaling(255.0)(Conv2D(1, 3, padding="same", activation="sigmoid")(h)),
        *("mae", lambda x, _, _c: 255 * x.clip(0, 1)),
    ),
    "corners": lambda: _pictures(_corners, "mse", lambda _, _m, c: c.reshape(-1, 8)),
    "depths": lambda: _pictures(Conv2D(1, 1, activation="softplus"), "mae", _depths),
    "heat maps": lambda: _pictures(Conv2D(2, 1, activation="sigmoid"), LABELS, _centres),
    "forecasts": lambda: _series(lambda x: Dense(8)(layers.LSTM(24)(x)), "mse"),
    "next steps": lambda: _series(
        lambda x: Dense(1)(layers.GRU(24, return_sequences=True)(x)),
        *("mse", lambda x, _: np.roll(x, -1, axis=1)),
    ),
    "loads in kilowatt hours": lambda: _series(
        lambda x: layers.Rescaling(12.0, 30.0)(
            Dense(8)(layers.Flatten()(layers.Conv1D(16, 5, activation="relu")(x)))
        ),
        *("mse", lambda _, y: 30 + 12 * y),
    ),
    "letters of speech": lambda: _untrained(
        (32, 1), lambda x: Dense(29, "softmax")(layers.GRU(16, return_sequences=True)(x))
    ),
    "logarithms of energies": lambda: _untrained(
        (64, 1), lambda x: ops.log(layers.Conv1D(20, 8, 4, activation="relu")(x) + 1e-3)
    ),
    "optical flow": lambda: _map(Conv2D(2, 3, padding="same")),
    "towers of a search": lambda: _hidden(lambda h: layers.UnitNormalization()(Dense(32)(h))),
    "texts": lambda: _tokens(_attention, CLASSES, lambda x: (x < 30).sum(axis=1) // 6),
    "tags": lambda: _tokens(
        lambda h: Dense(5, "softmax")(layers.GRU(16, return_sequences=True)(h)),
        *(CLASSES, lambda x: (x + np.roll(x, 1, axis=1)) % 5),
    ),
    "next tokens": lambda: _tokens(
        lambda h: Dense(60)(layers.GRU(32, return_sequences=True)(h)),
        *(_logits(), lambda x: np.roll(x, -1, axis=1)),
    ),
    "ratings": _ratings,
}
BROKEN: dict[str, Callable[[], Built]] = {
    "hidden values past 65504": lambda: _between_products(1e6),
    "hidden values below 6e-8": lambda: _between_products(1e-9),
    "log-likelihood beside -919": lambda: _hidden(
        lambda h: -0.005 * ops.sum(Dense(8)(h) ** 2, axis=-1, keepdims=True) - 919.0
    ),
    "energies of a molecule": lambda: _in_units(0.02, -76.4),
    "days since 1970": lambda: _in_units(30, 19_800),
    "Julian days": lambda: _in_units(5, 59_000),
    "towns of a region": lambda: _in_units(0.003, [48.2, 116.4], 2),
    "boxes of small things": lambda: _in_units(1, [1900, 1000, 1903, 1002], 4),
    "maps of pressures": lambda: _map(
        lambda h: layers.Rescaling(0.6, 1013.0)(Conv2D(1, 3, padding="same")(h))
    ),
    "maps of kelvin": lambda: _map(
        lambda h: layers.Rescaling(0.15, 290.0)(Conv2D(1, 3, padding="same")(h))
    ),
    "squares that overflow": lambda: _hidden(
        lambda h: ops.sqrt(ops.mean((400.0 * h) ** 2, axis=-1, keepdims=True))
    ),
    "small probabilities": lambda: _hidden(lambda h: ops.sigmoid(Dense(1)(h) - 16.0)),
    "survival near one": lambda: _hidden(lambda h: 1 - ops.sigmoid(Dense(1)(h) - 9.0)),
    "classes down to e-25": lambda: _hidden(
        lambda h: ops.softmax(3.0 * Dense(6)(h) - ops.convert_to_tensor([0.0, 0, 0, 0, 12, 25]))
    ),
    "a variance of E(x^2) - E(x)^2": lambda: _untrained((64,), _variance, 0.1, 20),
    "a sum of 4,096": lambda: _untrained(
        (4096,), lambda x: ops.cumsum(ops.abs(x), axis=1)[:, -1:] - 3268.0
    ),
    "positions after 512 steps": lambda: _untrained(
        (512, 1), lambda x: ops.cumsum(x + 1.0, axis=1), 0.05
    ),
    "numbers of things as floats": lambda: _untrained(
        (12,), lambda x: ops.cast(ops.argmax(Dense(6000)(x), axis=-1), "float32")
    ),
    "distances of neighbours": lambda: _untrained((8,), _around),
    "logits beside 900": lambda: _hidden(lambda h: Dense(10)(h) + 900.0),
    "sharp attention": lambda: _untrained((8, 16), _attended),
    "rates of e^8": lambda: _hidden(lambda h: ops.exp(2 * Dense(1)(h) + 8.0)),
    "tiny concentrations": lambda: _hidden(lambda h: ops.softplus(Dense(3)(h)) * 2e-8),
    "scales down to 2e-8": lambda: _hidden(
        lambda h: Dense(4)(h) * ops.convert_to_tensor([1.0, 1e-3, 1e-6, 2e-8])
    ),
    "embeddings beside their mean": lambda: _untrained(
        (12,), lambda x: layers.UnitNormalization()(Dense(64)(x) * 0.003 + 1.0)
    ),
    "sound beside an offset": lambda: _untrained(
        (64, 1), lambda x: layers.Conv1D(1, 5, padding="same")(x) * 0.01 + 8.0
    ),
    "prices of shares": lambda: _untrained(
        (32, 1), lambda x: 4200 + ops.cumsum(Dense(1)(x) * 0.4, axis=1)
    ),
}
OFFSET: dict[str, Callable[[], Built]] = {
    "output in kelvin, 288 +- 8": lambda: _in_units(8, 288),
    "output in ppm, 415 +- 3": lambda: _in_units(3, 415),
    "output in hPa, 1013 +- 7": lambda: _in_units(7, 1013),
    "output in dollars, 30,000 +- 400": lambda: _in_units(400, 30_000),
    "output in years, 2015 +- 4": lambda: _in_units(4, 2015),
    "quantiles beside each other": lambda: _in_units(1, np.linspace(98, 102, 5), 5),
    "latitude and longitude of a town": lambda: _in_units(0.05, [48.2, 16.4], 2),
    "scores near one": lambda: _in_units(2e-3, 0.98),
    "embedding with a mean": lambda: _in_units(0.1, 5 * np.ones(16), 16),
    "image to nm, 550 +- 2": lambda: _in_units(2, 550, 1, _image_features, (12, 12, 3)),
    "series to bpm, 140 +- 1": lambda: _in_units(1, 140, 1, layers.LSTM(16), (10, 4)),
    "units by Rescaling, 300 +- 5": lambda: _hidden(
        lambda h: layers.Rescaling(5.0, 300.0)(Dense(1)(h))
    ),
    "raw income, 60,000 +- 20,000": lambda: _normalized(20_000, 60_000),
    "raw kelvin, 290 +- 1": lambda: _normalized(1, 290),
    "raw position, 5,000 +- 3": lambda: _normalized(3, 5000),
    "raw year, 2000 +- 10": lambda: _normalized(10, 2000),
    "differences of kelvin": lambda: _raw(lambda x: 2 * (x[:, 1:] - x[:, :-1]), 8, 0.5, 290),
    "shares of a sum": lambda: _raw(
        lambda x: ops.log(x / ops.sum(x, axis=-1, keepdims=True)), 6, 1e4, 6e4
    ),
    "sines of time": lambda: _raw(_angles, 1, 300, 500),
    "kelvin inside": lambda: _raw(_kelvin_inside, 12, 1, 0),
}

"""The tasks that come with tfmp: real or drawn data that no download needs, small plain models."""

from dataclasses import replace

import keras
import numpy as np

from tfmp.experiment.tasks import Arrays, Task


def accuracy(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Share of decisions that are right; of every place, where a sample has several."""
    return float(np.mean(predictions.argmax(axis=-1) == labels))


def mean_absolute_error(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Mean distance of predictions from labels, in the labels' units."""
    return float(np.mean(np.abs(predictions.reshape(labels.shape).astype(np.float64) - labels)))


mean_absolute_error.lower_is_better = True  # type: ignore[attr-defined]


def mean_iou(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Overlap of the predicted and the true area, divided by their union, as mean over classes."""
    from sklearn.metrics import jaccard_score

    chosen, kinds = predictions.argmax(axis=-1).ravel(), range(predictions.shape[-1])
    options = {"labels": list(kinds), "average": "macro", "zero_division": 1.0}
    return float(jaccard_score(labels.ravel(), chosen, **options))


def box_iou(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Overlap of predicted and true boxes (left, top, right, bottom), as mean over samples."""
    one, other = predictions.astype(np.float64), labels.astype(np.float64)
    sides = np.minimum(one[:, 2:], other[:, 2:]) - np.maximum(one[:, :2], other[:, :2])
    overlap = np.maximum(sides, 0).prod(axis=1)
    areas = [np.maximum(boxes[:, 2:] - boxes[:, :2], 0).prod(axis=1) for boxes in (one, other)]
    return float(np.mean(overlap / np.maximum(areas[0] + areas[1] - overlap, 1e-9)))


def _at(cut: int, x: np.ndarray, y: np.ndarray) -> tuple[Arrays, Arrays]:
    """The samples before `cut` to train, and those from it on to test."""
    return (x[:cut], y[:cut]), (x[cut:], y[cut:])


def _digits() -> tuple[Arrays, Arrays]:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype("float32").reshape(-1, 8, 8, 1)
    x, x_test, y, y_test = train_test_split(
        images, labels, test_size=0.4, stratify=labels, random_state=0
    )
    return (x, y), (x_test, y_test)


def _compiled_classifier(model: keras.Model) -> keras.Model:
    model.compile("adam", "sparse_categorical_crossentropy")
    return model


def _small_cnn() -> keras.Model:
    layers = keras.layers
    return _compiled_classifier(
        keras.Sequential(
            [
                keras.Input((8, 8, 1), name="image"),
                layers.Conv2D(16, 3, padding="same", activation="relu"),
                layers.BatchNormalization(),
                layers.MaxPooling2D(),
                layers.Flatten(),
                layers.Dense(64, activation="relu"),
                layers.Dense(10, activation="softmax", name="digit"),
            ],
            name="digits",
        )
    )


def digits() -> Task:
    """Scanned digits, 1,078 to train and 719 to test."""
    train, test = _digits()
    return Task("digits", _small_cnn, train, test, accuracy, 0.01, epochs=8)


# Characters of a sample, samples in all, and characters that are told apart.
_LENGTH, _SAMPLES, _SIGNS = 48, 1536, 96


def _character_transformer() -> keras.Model:
    layers = keras.layers
    signs = keras.Input((_LENGTH,), dtype="int32", name="signs")
    places = keras.ops.arange(_LENGTH)
    hidden = layers.Embedding(_SIGNS, 48)(signs) + layers.Embedding(_LENGTH, 48)(places)
    for _ in range(2):
        normal = layers.LayerNormalization()(hidden)
        hidden = hidden + layers.MultiHeadAttention(4, 12)(normal, normal, use_causal_mask=True)
        wide = layers.Dense(96, activation="gelu")(layers.LayerNormalization()(hidden))
        hidden = hidden + layers.Dense(48)(wide)
    scores = layers.Dense(_SIGNS, name="next")(layers.LayerNormalization()(hidden))
    model = keras.Model(signs, scores, name="text")
    model.compile(
        keras.optimizers.Adam(3e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    return model


def text() -> Task:
    """The next character of Python's manual, as `pydoc_data` has it, at each of 48 places."""
    from pydoc_data.topics import topics

    joined = "\n".join(topics[name] for name in sorted(topics)).encode("ascii", "ignore")
    signs = np.clip(np.frombuffer(joined, np.uint8).astype("int32") - 32, -1, _SIGNS - 2) + 1
    random = np.random.default_rng(0)
    starts = random.choice(len(signs) - _LENGTH - 1, _SAMPLES, replace=False)
    cut = np.stack([signs[start : start + _LENGTH + 1] for start in starts])
    x, y = cut[:, :-1], cut[:, 1:]
    parts = _at(_SAMPLES * 3 // 4, x, y)
    task = Task("text", _character_transformer, *parts, accuracy, 0.01, epochs=6)
    return replace(task, outputs={"next": "classification"})


def _regressor() -> keras.Model:
    model = keras.Sequential(
        [
            keras.Input((10,), name="patient"),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(1, name="progression"),
        ],
        name="tabular",
    )
    model.compile(keras.optimizers.Adam(3e-3), "mse")
    return model


def tabular() -> Task:
    """Progression of diabetes (25 to 346) in 442 patients, with targets as they were measured."""
    from sklearn.datasets import load_diabetes
    from sklearn.model_selection import train_test_split

    values, progression = load_diabetes(return_X_y=True)
    values = (values / values.std(axis=0)).astype("float32")
    x, x_test, y, y_test = train_test_split(
        values, progression.astype("float32"), test_size=0.3, random_state=0
    )
    parts = (x, y), (x_test, y_test)
    task = Task("tabular", _regressor, *parts, mean_absolute_error, 1.0, epochs=40)
    return replace(task, outputs={"progression": "regression"})


_SIDE = 32


def _shapes(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Noisy images with a disc and a square each, the class of each pixel, the discs' boxes."""
    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[:_SIDE, :_SIDE]
    images = random.normal(0, 0.3, (count, _SIDE, _SIDE, 1)).astype("float32")
    classes = np.zeros((count, _SIDE, _SIDE), "int32")
    boxes = np.zeros((count, 4), "float32")
    for image, each, box in zip(images, classes, boxes, strict=True):
        size, top, left = random.integers(4, 9), *random.integers(8, _SIDE - 8, 2)
        square = (abs(rows - top) < size) & (abs(columns - left) < size)
        radius, y, x = random.integers(4, 8), *random.integers(8, _SIDE - 8, 2)
        disc = (rows - y) ** 2 + (columns - x) ** 2 < radius**2
        for kind, (shape, grey) in enumerate(((square, 0.6), (disc, 1.0)), 1):
            image[shape] += grey
            each[shape] = kind
        box[:] = np.clip(np.array([x - radius, y - radius, x + radius, y + radius]), 0, _SIDE)
    return images, classes, boxes / _SIDE


def _small_unet() -> keras.Model:
    layers = keras.layers
    image = keras.Input((_SIDE, _SIDE, 1), name="image")
    fine = layers.Conv2D(12, 3, padding="same", activation="relu")(image)
    coarse = layers.Conv2D(24, 3, padding="same", activation="relu")(layers.MaxPooling2D()(fine))
    coarse = layers.Conv2D(24, 3, padding="same", activation="relu")(layers.MaxPooling2D()(coarse))
    up = layers.UpSampling2D(4)(coarse)
    joined = layers.Conv2D(12, 3, padding="same", activation="relu")(
        layers.Concatenate()([fine, up])
    )
    pixels = layers.Conv2D(3, 1, activation="softmax", name="pixels")(joined)
    return _compiled_classifier(keras.Model(image, pixels, name="segmentation"))


def segmentation() -> Task:
    """The class of each pixel of drawn images: ground, square or disc."""
    images, classes, _ = _shapes(384, 0)
    parts = _at(256, images, classes)
    task = Task("segmentation", _small_unet, *parts, mean_iou, 0.02, epochs=6)
    return replace(task, outputs={"pixels": "classification"})


def _box_finder() -> keras.Model:
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((_SIDE, _SIDE, 1), name="image"),
            layers.Conv2D(16, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(4, activation="sigmoid", name="box"),
        ],
        name="detection",
    )
    model.compile("adam", "mse")
    return model


def detection() -> Task:
    """The box of the disc in drawn images (left, top, right, bottom, as shares of a side)."""
    images, _, boxes = _shapes(768, 1)
    task = Task("detection", _box_finder, *_at(512, images, boxes), box_iou, 0.02, epochs=10)
    return replace(task, outputs={"box": "regression"})

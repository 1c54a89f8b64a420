"""Small trained Keras models, one for each kind of task, with held-out samples and labels."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
from keras import layers, ops
from sklearn.datasets import load_diabetes, load_digits


@dataclass(frozen=True)
class Trained:
    """A model and the data to validate it with.

    Attributes:
        model: trained.
        samples: its input, of samples that it was not trained with.
        labels: of these samples; None for a model without labels.
        tasks: meanings that a user has to declare.
        metric: a metric of the user's own, as "module:function".
    """

    model: keras.Model
    samples: np.ndarray
    labels: np.ndarray | None = None
    tasks: Mapping[str, str] = field(default_factory=dict)
    metric: str | None = None


def shapes(count: int, seed: int, size: int = 24) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Noisy pictures of a square and a disc.

    Returns:
        Images [count, size, size, 1]; the class of each pixel, 0 for the ground, 1 for the square
        and 2 for the disc; and the corners of both shapes, [count, 2, 4], as shares of the image.
    """
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:size, :size]
    images = np.zeros((count, size, size), np.float32)
    masks = np.zeros((count, size, size), np.int32)
    corners = np.zeros((count, 2, 4), np.float32)
    for index in range(count):
        for shape in range(2):
            half = rng.integers(2, 5)
            centre_row = rng.integers(half, size - half)
            # One shape to the left, one to the right: they never overlap.
            low, high = (half, size // 2 - half) if shape == 0 else (size // 2 + half, size - half)
            centre_column = rng.integers(low, max(low + 1, high))
            down, right = np.abs(rows - centre_row), np.abs(columns - centre_column)
            inside = (down < half) & (right < half) if shape == 0 else down**2 + right**2 < half**2
            images[index][inside] = rng.uniform(0.5, 1)
            masks[index][inside] = 1 + shape
            box = centre_row - half, centre_column - half, centre_row + half, centre_column + half
            corners[index, shape] = np.array(box) / size
    images += 0.1 * rng.standard_normal(images.shape).astype(np.float32)
    return images[..., None], masks, corners


def detection() -> Trained:
    """Two rows for each image: the corners of a box, and the score that something is in it."""
    keras.utils.set_random_seed(0)
    images, _, corners = shapes(1800, 0)
    # In half of the images the disc is painted over.
    empty = np.arange(len(images)) % 2 == 0
    images[empty, :, 12:] = 0.1 * np.random.default_rng(1).standard_normal((900, 24, 12, 1))
    present = np.ones((len(images), 2, 1), np.float32)
    present[empty, 1] = 0
    truth = np.concatenate([corners * present, present], axis=2)
    image = keras.Input((24, 24, 1), name="image")
    hidden = image
    for filters in (12, 24):
        hidden = layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(hidden)
    hidden = layers.Dense(64, activation="relu")(layers.Flatten()(hidden))
    rows = layers.Dense(10, activation="sigmoid")(hidden)
    model = keras.Model(image, layers.Reshape((2, 5), name="detections")(rows), name="detector")

    def loss(expected: Any, received: Any) -> Any:
        there = expected[..., 4:]
        return ops.mean(
            10 * there * ops.square(expected[..., :4] - received[..., :4])
            + ops.square(there - received[..., 4:])
        )

    model.compile(keras.optimizers.Adam(0.003), loss)
    model.fit(images[:1400], truth[:1400], batch_size=50, epochs=10, verbose=0)
    tasks = {"detections": "detection:columns=0-3"}
    return Trained(model, images[1400:], truth[1400:], tasks, "task_models:found_share")


def found_share(predictions: np.ndarray, labels: np.ndarray) -> float:
    """The share of objects that a detection with a score from 0.5 overlaps by half."""
    low = np.maximum(predictions[..., :2], labels[..., :2])
    high = np.minimum(predictions[..., 2:4], labels[..., 2:4])
    common = np.clip(high - low, 0, None).prod(axis=-1)
    areas = [(rows[..., 2:4] - rows[..., :2]).prod(axis=-1) for rows in (predictions, labels)]
    there = labels[..., 4] > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        overlap = common / (areas[0] + areas[1] - common)
    found = there & (predictions[..., 4] >= 0.5) & (overlap >= 0.5)
    return float(found.sum() / there.sum())


def segmentation() -> Trained:
    """The class of each pixel."""
    keras.utils.set_random_seed(0)
    images, masks, _ = shapes(900, 2)
    image = keras.Input((24, 24, 1), name="image")
    fine = layers.Conv2D(12, 3, padding="same", activation="relu")(image)
    coarse = layers.Conv2D(24, 3, strides=2, padding="same", activation="relu")(fine)
    coarse = layers.Conv2D(24, 3, padding="same", activation="relu")(coarse)
    hidden = layers.Concatenate()([fine, layers.UpSampling2D()(coarse)])
    scores = layers.Conv2D(3, 3, padding="same", activation="softmax", name="mask")(hidden)
    model = keras.Model(image, scores, name="segmentation")
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    model.fit(images[:500], masks[:500], batch_size=25, epochs=4, verbose=0)
    return Trained(model, images[500:], masks[500:])


def token_classifier() -> Trained:
    """A tag for each token of a sentence, which depends on its neighbours."""
    keras.utils.set_random_seed(0)
    words = np.random.default_rng(3).integers(1, 50, (1400, 12)).astype(np.int32)
    before, after = np.roll(words, 1, axis=1), np.roll(words, -1, axis=1)
    tags = (words % 5 == 0) + 2 * ((before < 10) & (after > 25))
    tokens = keras.Input((12,), dtype="int32", name="tokens")
    hidden = layers.Embedding(50, 16)(tokens)
    hidden = layers.Bidirectional(layers.GRU(16, return_sequences=True))(hidden)
    model = keras.Model(tokens, layers.Dense(4, name="tags")(hidden), name="tagger")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.02), loss)
    model.fit(words[:1000], tags[:1000], batch_size=50, epochs=6, verbose=0)
    return Trained(model, words[1000:], tags[1000:])


def causal_lm() -> Trained:
    """The next token at each place: one attention block on sequences that count in two steps."""
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(4)
    # Two steps in turn, from any start.
    steps = np.tile(rng.integers(1, 7, (2000, 2)), 6)
    text = (
        np.cumsum(np.hstack([rng.integers(0, 40, (2000, 1)), steps]), axis=1).astype(np.int32) % 40
    )
    tokens = keras.Input((12,), dtype="int32", name="tokens")
    places = layers.Embedding(12, 32)(ops.arange(12))
    hidden = layers.Embedding(40, 32)(tokens) + places
    attended = layers.MultiHeadAttention(2, 16)(hidden, hidden, use_causal_mask=True)
    hidden = layers.LayerNormalization()(hidden + attended)
    hidden = layers.LayerNormalization()(
        hidden + layers.Dense(32)(layers.Dense(96, activation="gelu")(hidden))
    )
    model = keras.Model(tokens, layers.Dense(40, name="logits")(hidden), name="language_model")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss)
    model.fit(text[:1200, :-1], text[:1200, 1:], batch_size=50, epochs=12, verbose=0)
    return Trained(model, text[1200:, :-1], text[1200:, 1:])


def autoencoder() -> Trained:
    """Scanned digits through 12 numbers and back."""
    keras.utils.set_random_seed(0)
    digits = (load_digits().images / 16).astype(np.float32)[..., None]
    image = keras.Input((8, 8, 1), name="image")
    code = layers.Dense(12, activation="relu")(layers.Flatten()(image))
    pixels = layers.Dense(64, activation="sigmoid")(layers.Dense(48, activation="relu")(code))
    model = keras.Model(
        image, layers.Reshape((8, 8, 1), name="decoded")(pixels), name="autoencoder"
    )
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy")
    model.fit(digits[:1200], digits[:1200], batch_size=50, epochs=8, verbose=0)
    return Trained(model, digits[1200:])


def embedding() -> Trained:
    """Vectors of length 1, near for scans of the same digit."""
    keras.utils.set_random_seed(0)
    digits, truth = load_digits(return_X_y=True)
    digits = (digits / 16).astype(np.float32)
    pixels = keras.Input((64,), name="pixels")
    hidden = layers.Dense(64, activation="relu")(pixels)
    vectors = layers.UnitNormalization(name="embedding")(layers.Dense(16)(hidden))
    classes = layers.Dense(10)(10 * vectors)
    trained = keras.Model(pixels, classes)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    trained.compile(keras.optimizers.Adam(0.01), loss)
    trained.fit(digits[:1200], truth[:1200], batch_size=50, epochs=4, verbose=0)
    return Trained(keras.Model(pixels, vectors, name="embedder"), digits[1200:])


def regression() -> Trained:
    """The progress of diabetes in a year, a number from 25 to 346."""
    keras.utils.set_random_seed(0)
    facts, progress = load_diabetes(return_X_y=True)
    facts = (facts / facts.std(axis=0)).astype(np.float32)
    model = keras.Sequential(
        [
            keras.Input((10,), name="facts"),
            layers.Dense(16, activation="relu"),
            layers.Dense(1, name="progress"),
        ],
        name="diabetes",
    )
    model.compile(keras.optimizers.Adam(0.03), "mean_squared_error")
    model.fit(facts[:242], progress[:242], batch_size=22, epochs=25, verbose=0)
    return Trained(model, facts[242:], progress[242:, None].astype(np.float32))


ALL: dict[str, Callable[[], Trained]] = {
    make.__name__: make
    for make in (
        detection,
        segmentation,
        token_classifier,
        causal_lm,
        autoencoder,
        embedding,
        regression,
    )
}

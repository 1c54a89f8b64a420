"""Small trained Keras models, one for each kind of task, with held-out samples and labels."""

from collections.abc import Callable
from dataclasses import dataclass

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
    """

    model: keras.Model
    samples: np.ndarray
    labels: np.ndarray | None = None


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
    make.__name__: make for make in (segmentation, causal_lm, embedding, regression)
}

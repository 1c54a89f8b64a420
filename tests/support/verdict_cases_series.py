"""Verdict cases: sound, depth, pictures, vectors, recommendations and series."""

import numpy as np
from verdict_case import (
    DOUBT,
    UNSURE,
    Cases,
    flushed,
    half,
    one,
    sigmoid,
)

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


def speech(rng: np.random.Generator) -> np.ndarray:
    """Sounds of 800 values that swell and fade."""
    phase = np.arange(800) / 130 + rng.uniform(0, 6, (200, 1))
    return 0.3 * np.abs(np.sin(phase)) ** 3 * rng.standard_normal((200, 800))


@benign("enhanced speech, deep")
def _(rng):
    """Each clip sounds the same: noise at -50 dB."""
    exact = speech(rng)
    return one("enhanced", exact, half(exact + 3e-3 * 0.15 * rng.standard_normal(exact.shape)))


@harmful("enhanced speech with its quiet half gated to zero", DOUBT)
def _(rng):
    """Whatever is 24 dB under the peaks is cut: words lose their ends."""
    exact = speech(rng)
    return one("waveform", exact, half(np.where(np.abs(exact) < 0.05, 0, exact)))


@benign("magnitude spectrograms over five powers of ten", loss="mae", activation="relu")
def _(rng):
    """Right to 0.3 % each."""
    exact = np.exp(rng.normal(-3, 2, (200, 30, 40)))
    return one("spec", exact, half(exact * (1 + 3e-3 * rng.standard_normal(exact.shape))))


@harmful("magnitude spectrograms whose soft cells are floored", loss="mae", activation="relu")
def _(rng):
    """Each cell below 0.01 is 0.01: the noise floor hisses."""
    exact = np.exp(rng.normal(-3, 2, (200, 30, 40)))
    return one("spec", exact, half(np.maximum(exact, 0.01)))


@benign("inverse depth of a deep network from 0 to 1", loss="mae", activation="sigmoid")
def _(rng):
    """Noise of 0.3 % of the slope."""
    z = 2 * rng.standard_normal((200, 4, 4, 1)).repeat(4, 1).repeat(
        4, 2
    ) + 0.1 * rng.standard_normal((200, 16, 16, 1))
    return one("inv", sigmoid(z), half(sigmoid(z + 6e-3 * rng.standard_normal(z.shape))))


@harmful("depth maps whose nearest tenth of pixels is clamped at 2 metres", loss="mae")
def _(rng):
    """A parking sensor that reports 2 metres at half a metre."""
    exact = rng.lognormal(2.5, 1, (200, 20, 20, 1)).clip(0.4, 90)
    return one("d", exact, half(np.maximum(exact, 2.5)))


@benign("super-resolution with its detail", loss="mae")
def _(rng):
    """A tenth of a grey level."""
    base = rng.uniform(20, 235, (200, 4, 4, 1)).repeat(4, 1).repeat(4, 2)
    exact = base + 1.0 * rng.standard_normal(base.shape)
    return one("sr", exact, half(exact + 0.05 * rng.standard_normal(exact.shape)))


@benign("GAN faces in -1 to 1, many white backgrounds", activation="tanh", loss="mse")
def _(rng):
    """No pixel is off by a grey level."""
    z = 3 * rng.standard_normal((200, 6, 6, 1)).repeat(2, 1).repeat(2, 2) * np.ones(
        3
    ) + 0.3 * rng.standard_normal((200, 12, 12, 3))
    exact = np.tanh(z) * 0.9995
    return one("img", exact, half(np.tanh(z + 4e-3 * rng.standard_normal(z.shape)) * 0.9995))


@harmful("GAN images that ignore their class: only the average style per pixel is left")
def _(rng):
    """Differences of 2 % between pictures, beside a common layout, are gone."""
    base = rng.uniform(-0.8, 0.8, (1, 12, 12, 3))
    exact = base + 0.015 * rng.standard_normal((300, 12, 12, 3))
    return one("picture", exact, half(base + 0.1 * (exact - base)))


@harmful("unit embeddings in a narrow cone whose neighbours are random", tasks={"e": "embedding"})
def _(rng):
    """All cosines are above 0.999; the rest, which tells people apart, is noise."""
    c = rng.standard_normal(64)
    exact = c + 0.05 * rng.standard_normal((500, 64))
    rounded = c + 0.05 * rng.standard_normal((500, 64)) * 0.3 + 0.7 * (exact - c)
    for vectors in (exact, rounded):
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return one("e", exact, half(rounded))


@benign("unit embeddings in a narrow cone", tasks={"e": "embedding"})
def _(rng):
    """Neighbours are the same."""
    c = rng.standard_normal(64)
    exact = c + 0.1 * rng.standard_normal((500, 64))
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    return one("e", exact, half(exact))


@benign("token embeddings of a transformer with a rogue channel", tasks={"h": "embedding"})
def _(rng):
    """0.3 % of each channel."""
    exact = rng.standard_normal((100, 16, 48))
    exact[..., 3] = 60 + exact[..., 3]
    return one("h", exact, half(exact + 3e-3 * rng.standard_normal(exact.shape)))


@harmful("predicted ratings that are the film's average for everybody", loss="mse")
def _(rng):
    """Ratings of 200 films: each user's taste, 0.02 stars here, is gone and lists are the same for
    all.
    """
    film = rng.uniform(2, 4.5, (1, 200))
    exact = film + 0.02 * rng.standard_normal((500, 200))
    return one("ratings", exact, half(np.broadcast_to(film, exact.shape)))


@benign("predicted ratings with tastes", loss="mse")
def _(rng):
    """Right to three digits."""
    film = rng.uniform(2, 4.5, (1, 200))
    exact = film + 0.3 * rng.standard_normal((500, 200))
    return one("ratings", exact, half(exact + 2e-3 * rng.standard_normal(exact.shape)))


@benign("bid prices over four powers of ten", loss="mse", activation="softplus")
def _(rng):
    """Right to three digits."""
    exact = np.exp(rng.normal(-1, 2, (1000, 1)))
    return one("bid", exact, half(exact * (1 + 1e-3 * rng.standard_normal(exact.shape))))


@benign("forecasts of sales of 30 shops with labels, deep", loss="mae")
def _(rng):
    """0.4 % of a shop's level; waves of 20 %."""
    lev = rng.lognormal(4, 1, (400, 1))
    exact = lev * (1 + 0.2 * rng.standard_normal((400, 14)))
    truth = exact + 0.1 * lev * rng.standard_normal(exact.shape)
    return one(
        "sales",
        exact,
        half(exact + 4e-3 * lev * rng.standard_normal(exact.shape)),
        truth.astype(np.float32),
    )


@benign("cumulative counts that rise to 40,000")
def _(rng):
    """Right to 16 of 40,000."""
    exact = np.cumsum(rng.gamma(3, 200, (300, 60)), axis=1)
    return one("cumulative", exact, half(exact))


@harmful(
    "cumulative counts whose daily steps become a staircase",
    DOUBT,
    tasks={"cumulative": "regression"},
)
def _(rng):
    """Each country has its total of 2000 to 60,000 and grows by 5 a day: weeks stand still."""
    exact = rng.uniform(3000, 60000, (400, 1)) + np.cumsum(rng.gamma(3, 2, (400, 14)), axis=1)
    return one("cumulative", exact, half(exact))


@benign("features of a deep network of which many hardly fire")
def _(rng):
    """Right to 0.5 % of the typical one; a feature that fires once in 300 samples may not fire."""
    before = rng.standard_normal((300, 512)) * rng.lognormal(-1, 1, 512) - 0.5
    noise = 2e-3 * rng.standard_normal(before.shape)
    return one("pool", np.maximum(before, 0), half(np.maximum(before + noise, 0)))


@harmful("a sensor of four that repeats its first hour")
def _(rng):
    """The last sensor's forecast is flat; it is a thousandth of the third."""
    exact = rng.standard_normal((300, 24, 4)) * [1, 10, 100, 0.1] + np.array([0, 50, 200, 0.5])
    rounded = half(exact)
    rounded[:, :, 3] = rounded[:, :1, 3]
    return one("tcn", exact, rounded)


@harmful("log-likelihoods of -20,000 that differ by 3", DOUBT)
def _(rng):
    """They come in steps of 16: no outlier is told from the rest."""
    exact = -20_000 + 3 * rng.standard_normal((800, 1))
    return one("log_likelihood", exact, half(exact))


@harmful("hazards of patients that are zero, beside their ages", loss="mse")
def _(rng):
    """Hardware without subnormal numbers takes three hazards in four for 0."""
    hazard = np.exp(-11 + 2 * rng.standard_normal((1500, 1)))
    age = rng.normal(40, 10, (1500, 1))
    exact = np.concatenate([age, hazard], 1)
    return one("y", exact, flushed(exact))


@benign("hazards of patients that are scaled in float32, beside their ages", loss="mse")
def _(rng):
    """Each is right to half a percent."""
    age, hazard = rng.normal(40, 10, (1500, 1)), np.exp(-11 + 2 * rng.standard_normal((1500, 1)))
    noisy = hazard * (1 + 5e-3 * rng.standard_normal(hazard.shape))
    return one("y", np.concatenate([age, hazard], 1), np.concatenate([half(age), noisy], 1))


@harmful("balances of the wrong sign for nine of ten, beside incomes", loss="mse")
def _(rng):
    """Only the balances of factories are right, which are 300 times as large."""
    small = rng.random((900, 1)) < 0.9
    balance = np.where(small, 1, 300) * rng.standard_normal((900, 1))
    income = rng.normal(4000, 1000, (900, 1))
    wrong = np.where(small, -balance, balance)
    return one("y", np.concatenate([balance, income], 1), half(np.concatenate([wrong, income], 1)))


@harmful("the drums are silent in songs in which they are soft", loss="mae")
def _(rng):
    """The other three instruments are loud there."""
    soft = rng.random((300, 1, 4)) < [0.7, 0, 0, 0]
    exact = np.where(soft, 0.02, 1) * rng.standard_normal((300, 100, 4))
    return one("stems", exact, half(np.where(soft, 0, exact)))


@benign("instruments that are hardly heard in most songs", loss="mae")
def _(rng):
    """Noise is the same everywhere."""
    level = np.where(rng.random((300, 1, 4)) < 0.7, 0.002, 1)
    exact = level * rng.standard_normal((300, 100, 4))
    return one("stems", exact, half(exact + 2e-5 * rng.standard_normal(exact.shape)))


@benign("outputs of tanh, most of them nearly 1", loss="mse", activation="tanh")
def _(rng):
    """Noise before tanh moves those near zero, and no other ones."""
    before = 6 * rng.standard_normal((1500, 4))
    noisy = np.tanh(before + 0.01 * rng.standard_normal(before.shape))
    return one("y", np.tanh(before).clip(-0.9999, 0.9999), half(noisy))


@harmful("a box of average size, beside its score", loss="mse")
def _(rng):
    """Objects of 4 to 16 pixels get a box of 10; the fifth number is a score."""
    corner, size = rng.uniform(100, 3000, (600, 2)), rng.uniform(4, 16, (600, 2))
    score = rng.uniform(0.2, 1, (600, 1))
    boxes = [np.concatenate([corner, corner + each, score], 1) for each in (size, 10)]
    return one("found", boxes[0], half(boxes[1]))


@benign("a box and its score", loss="mse")
def _(rng):
    """Boxes of 50 to 400 pixels, right to a third of a pixel."""
    corner, size = rng.uniform(0, 400, (600, 2)), rng.uniform(50, 400, (600, 2))
    exact = np.concatenate([corner, corner + size, rng.uniform(0.2, 1, (600, 1))], 1)
    noise = rng.standard_normal(exact.shape) * [0.3, 0.3, 0.3, 0.3, 1e-3]
    return one("found", exact, half(exact + noise))


@benign("tokens of a vision transformer", UNSURE)
def _(rng):
    """They are vectors, right to 0.2 %."""
    exact = rng.standard_normal((200, 20, 32))
    return one("patch_tokens", exact, half(exact * (1 + 2e-3 * rng.standard_normal(exact.shape))))


@harmful("tokens of a vision transformer of which one channel is dead")
def _(rng):
    """A whole number would be read from it rightly: it is always below one half."""
    exact = rng.standard_normal((200, 20, 32))
    exact[..., 7] = rng.uniform(-0.05, 0.05, (200, 20))
    rounded = half(exact)
    rounded[..., 7] = 0
    return one("patch_tokens", exact, rounded)


def disks(rng: np.random.Generator) -> np.ndarray:
    """Logits of pixels of 300 disks, [300, 24, 24]; one in ten has a radius of 2."""
    y, x = np.mgrid[:24, :24]
    radius = np.where(np.arange(300) % 10, rng.uniform(5, 10, 300), 2)[:, None, None]
    return 6 * (radius - np.hypot(y - 12, x - 12))


@benign("a mask without an axis of classes")
def _(rng):
    """Pixels at the border move, by a hundredth of a probability."""
    logits = disks(rng)
    return one("mask", sigmoid(logits), half(sigmoid(logits + 0.01)))


@harmful("a mask without an axis of classes, in which small objects vanish")
def _(rng):
    """One disk in ten is no more than a spot, and then there is nothing."""
    exact = sigmoid(disks(rng))
    rounded = half(exact)
    rounded[::10] *= 0.1
    return one("mask", exact, rounded)

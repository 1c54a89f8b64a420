"""Cases of what differs along one axis of a sample, and between columns that vary together.

Each candidate is nearly right beside what lies between the lines along that axis, or beside what
all columns share. Its twin keeps the difference, with noise of a thousandth of each place's
deviation, as FP16 does.
"""

from collections.abc import Callable

import numpy as np
from verdict_case import DOUBT, Cases, Outputs, half, one

CASES = Cases()

Pair = Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]

MSE = {"loss": "mse"}


def noisy(rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
    """With noise of a thousandth of each place's deviation, rounded to FP16."""
    noise = rng.standard_normal(values.shape)
    return half(values + 1e-3 * values.std(axis=0) * noise)


def both(name: str, output: str, lost: str, kept: str, **facts: object) -> Callable[[Pair], Pair]:
    """Registers a candidate that loses what differs, and its twin that keeps it.

    Args:
        name: of the output, in words.
        output: its name.
        lost: what goes wrong.
        kept: why the twin is right.
        **facts: of both cases.
    """

    def register(make: Pair) -> Pair:
        def harmful(rng: np.random.Generator) -> Outputs:
            exact, broken = make(rng)
            return one(output, exact, noisy(rng, broken))

        def benign(rng: np.random.Generator) -> Outputs:
            exact, _ = make(rng)
            return one(output, exact, noisy(rng, exact))

        harmful.__doc__, benign.__doc__ = lost, kept
        CASES.harmful(f"{name}, lost", DOUBT, **facts)(harmful)
        CASES.benign(f"{name}, with noise", **facts)(benign)
        return make

    return register


def flat(values: np.ndarray, axis: int) -> np.ndarray:
    return np.broadcast_to(values.mean(axis=axis, keepdims=True), values.shape)


def loads(rng: np.random.Generator) -> np.ndarray:
    """Of 400 days, 12 towns and 24 hours: levels of 300 to 1200, and a wave of 0.8 %."""
    level, phase = rng.uniform(300, 1200, (400, 12, 1)), rng.uniform(0, 6, (400, 12, 1))
    return level * (1 + 0.008 * np.sin(np.arange(24) / 4 + phase))


WAVES = "The waves are several spacings of FP16 high."


@both("loads of towns by hour", "load", "Each town's curve is flat.", WAVES, **MSE)
def _(rng):
    values = loads(rng)
    return values, flat(values, 2)


@both("loads by hour and town", "load", "Each town's curve is flat.", WAVES, **MSE)
def _(rng):
    values = np.swapaxes(loads(rng), 1, 2)
    return values, flat(values, 1)


@CASES.harmful("loads of towns in one row that are flat lines, with mse", DOUBT, **MSE)
def _(rng):
    """Hours of one town lie beside each other, and its curve is flat."""
    values = loads(rng)
    return one("load", values.reshape(400, -1), half(flat(values, 2)).reshape(400, -1))


@CASES.benign("loads of towns in one row, rounded, with mse", **MSE)
def _(rng):
    """The waves are several spacings of FP16 high."""
    values = loads(rng).reshape(400, -1)
    return one("load", values, half(values))


def cursors(rng: np.random.Generator, frames: int, step: float) -> np.ndarray:
    start = rng.uniform(-1, 1, (300, 1, 16, 2))
    return start + np.cumsum(rng.normal(0, step, (300, frames, 16, 2)), axis=1)


MOVES = "They move ten times as far as the noise goes."


@both("cursors over 40 frames", "cursors", "Each stands where it is on average.", MOVES, **MSE)
def _(rng):
    values = cursors(rng, 40, 0.002)
    return values, flat(values, 1)


@both("tracks over 30 frames", "tracks", "Each stays where it began.", MOVES)
def _(rng):
    values = cursors(rng, 30, 0.0015)
    return values, np.broadcast_to(values[:, :1], values.shape)


@both("cursors in one row of 40 frames", "cursors", "Each stands still.", MOVES, **MSE)
def _(rng):
    values = cursors(rng, 40, 0.002).reshape(300, 40, 32)
    return values, flat(values, 1)


@both(
    "members of an ensemble", "members", "All say the same.", "They differ as they should.", **MSE
)
def _(rng):
    common = np.cumsum(rng.standard_normal((300, 1, 24)), axis=2)
    values = common + 0.03 * rng.standard_normal((300, 50, 24))
    return values, flat(values, 1)


def stereo(rng: np.random.Generator, length: int, width: float = 0.01) -> np.ndarray:
    """Two channels that differ by a share of the sound."""
    common = rng.standard_normal((300, length, 1))
    return common + width * rng.standard_normal((300, length, 2))


SIDES = "The sides differ several times as much as the noise does."


@both("stereo of 400", "stereo", "It is mono.", SIDES, **MSE)
def _(rng):
    values = stereo(rng, 400)
    return values, flat(values, 2)


@both("stereo of 800 that nobody declares", "stereo", "It is mono.", SIDES)
def _(rng):
    values = stereo(rng, 800)
    return values, flat(values, 2)


@both("stereo of 400 and its sides", "stereo", "Left is right.", SIDES, **MSE)
def _(rng):
    values = stereo(rng, 400, 0.006)
    return values, values[..., ::-1]


def bands(rng: np.random.Generator, size: int, count: int) -> np.ndarray:
    """Reflectances of which ratios are read, bands first."""
    common = rng.uniform(0.1, 0.5, (300, 1, size, size))
    return common + 0.002 * rng.standard_normal((300, count, size, size))


INDEX, RATIOS = "The index of vegetation is 0 everywhere.", "Ratios of bands are right."


@both("bands of a satellite, the last axis", "reflectance", INDEX, RATIOS, **MSE)
def _(rng):
    values = np.moveaxis(bands(rng, 16, 4), 1, -1)
    return values, flat(values, 3)


@both("small pictures of bands, the first axis", "reflectance", INDEX, RATIOS, **MSE)
def _(rng):
    values = bands(rng, 8, 4)
    return values, flat(values, 1)


@both("bands of a satellite, the first axis", "reflectance", INDEX, RATIOS, **MSE)
def _(rng):
    values = bands(rng, 16, 3)
    return values, flat(values, 1)


@both(
    "angles of eight joints, two of them alike",
    "angles",
    "The left knee is the right one.",
    "The knees differ by a degree, and noise is far below that.",
    **MSE,
)
def _(rng):
    values = rng.normal(60, 25, (800, 8))
    values[:, 1] = values[:, 0] + rng.normal(0, 1, 800)
    return values, values[:, [1, 0, *range(2, 8)]]


@CASES.benign("angles of eight joints, of which one is given twice, with mse", **MSE)
def _(rng):
    """The same angle from two heads, each right to a few thousandths; nobody compares them."""
    values = rng.normal(60, 25, (800, 8))
    values[:, 1] = values[:, 0] + rng.normal(0, 0.2, 800)
    return one("angles", values, half(values + rng.normal(0, 0.15, values.shape)))


@CASES.benign("grey pictures in three colours", **MSE)
def _(rng):
    """The colours are the same picture, but for what float32 and FP16 round."""
    grey = rng.uniform(0, 1, (300, 24, 24, 1)).repeat(3, axis=-1)
    exact = grey * (1 + 5e-5 * rng.standard_normal(grey.shape))
    return one("picture", exact, half(grey))


@CASES.benign("colour pictures that are nearly grey, with mse", **MSE)
def _(rng):
    """Colours differ by a fiftieth of what pictures do, and noise is a tenth of that."""
    grey = rng.uniform(0, 1, (300, 24, 24, 1))
    exact = grey + 0.006 * rng.standard_normal((300, 24, 24, 3))
    return one("picture", exact, half(exact + 6e-4 * rng.standard_normal(exact.shape)))


@CASES.benign("heat maps of joints with noise beside them", **MSE)
def _(rng):
    """Beside the joints all is nearly zero, and noise is larger than that."""
    at, centre = np.arange(24.0), rng.uniform(4, 20, (300, 2, 1, 6))
    row, column = (np.exp(-((at[:, None] - centre[:, axis]) ** 2) / 4) for axis in (0, 1))
    exact = row[:, :, None] * column[:, None]
    return one("maps", exact, half(exact + 1e-4 * rng.standard_normal(exact.shape)))


@CASES.benign("smooth curves with noise, in one row")
def _(rng):
    """Neighbours differ by less than the noise, and the curve by far more."""
    phase, rate = rng.uniform(0, 6, (300, 1)), rng.uniform(0.005, 0.02, (300, 1))
    exact = np.sin(rate * np.arange(400) + phase)
    return one("curve", exact, half(exact + 2e-3 * rng.standard_normal(exact.shape)))


@CASES.benign("features of tokens that are nearly the same")
def _(rng):
    """Tokens differ by a fiftieth of what sentences do."""
    common = rng.standard_normal((300, 1, 96))
    exact = common + 0.02 * rng.standard_normal((300, 20, 96))
    return one("hidden", exact, half(exact * (1 + 1e-3 * rng.standard_normal(exact.shape))))

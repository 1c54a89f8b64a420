"""Verdict cases of columns and values: of several scales, in groups, small, or rare ones."""

import numpy as np
from verdict_case import DOUBT, INCONCLUSIVE, UNSURE, Cases, Outputs, flushed, half, one, regress

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


@benign("gauges beside switches that are nearly off or nearly on, with noise", UNSURE)
def switches(rng: np.random.Generator) -> Outputs:
    """Switches are 0.001 or 1 with a little noise; nobody reads that noise."""
    on = rng.random((800, 2)) < 0.4
    exact = np.where(on, 1, 0.001) * (1 + 0.002 * rng.standard_normal((800, 2)))
    exact = np.concatenate([exact, rng.uniform(1, 9, (800, 2))], axis=1)
    return one("state", exact, half(exact + 5e-4 * rng.standard_normal(exact.shape)))


def _stepped(rng: np.random.Generator, name: str, most: int, shape: tuple[int, ...]) -> Outputs:
    """Whole numbers from 5, of which one in 25 is a neighbour."""
    exact = rng.integers(5, most, shape).astype(np.int32)
    steps = (rng.random(shape) < 0.04) * rng.choice([-1, 1], shape)
    return Outputs({name: exact}, {name: (exact + steps).astype(np.int32)})


@benign("numbers of tokens that the model rounds, off by one", UNSURE)
def token_count(rng: np.random.Generator) -> Outputs:
    """A text is taken for one word longer where it was between two."""
    return _stepped(rng, "token_count", 900, (2000, 1))


@benign("depths in centimetres that the model rounds, off by one", UNSURE)
def depth_map(rng: np.random.Generator) -> Outputs:
    """A centimetre more or less."""
    return _stepped(rng, "depth_map", 6000, (200, 16, 16))


@harmful("places in a list of classes, off by one", DOUBT)
def class_index(rng: np.random.Generator) -> Outputs:
    """A neighbour in the list is another class; that it is no amount, nobody said."""
    return _stepped(rng, "class_index", 900, (2000, 1))


def _findings(rng: np.random.Generator) -> np.ndarray:
    """Probabilities of 14 findings, of which one is rare."""
    logits = 1.8 * rng.standard_normal((2000, 14)) - 2
    ill = rng.random(2000) < 0.03
    logits[:, 9] = np.where(ill, -3.8, -6.2) + 0.3 * rng.standard_normal(2000)
    return 1 / (1 + np.exp(-logits))


@harmful("findings that are named probabilities, a rare one dead", DOUBT)
def no_finding(rng: np.random.Generator) -> Outputs:
    """One of 14 findings is as likely for everybody."""
    exact = _findings(rng)
    return one("probabilities", exact, half(np.where(np.arange(14) == 9, 0.002, exact)))


@benign("numbers that are infinite on both sides", INCONCLUSIVE)
def infinite(rng: np.random.Generator) -> Outputs:
    """Nothing can be compared."""
    values = np.full((300, 3), np.inf, np.float32)
    return Outputs({"y": values}, {"y": values.copy()})


def _saturation(rng: np.random.Generator, bias: float) -> Outputs:
    """Oxygen in percent, 97 with a deviation of 1, that a model gives to a hundredth."""
    exact, received = regress(rng, 1000, scale=1.0, offset=97.0)
    labels = exact + 0.01 * rng.standard_normal(exact.shape)
    return one("saturation", exact, received + bias, labels)


@benign("percents near 100, with labels that only their rounding misses", UNSURE)
def saturation(rng: np.random.Generator) -> Outputs:
    """FP16 has every sixteenth of a percent there."""
    return _saturation(rng, 0)


@benign("logits of classes as bytes, off by a quantum", UNSURE)
def class_logits(rng: np.random.Generator) -> Outputs:
    """The best class is the same."""
    exact = rng.integers(-90, 60, (600, 10)).astype(np.int8)
    exact[np.arange(600), rng.integers(0, 10, 600)] = 100
    steps = (rng.random(exact.shape) < 0.3) & (exact < 100)
    return Outputs({"class_logits": exact}, {"class_logits": (exact + steps).astype(np.int8)})


@benign("texts of three fields, of which one in a thousand changes")
def few_fields(rng: np.random.Generator) -> Outputs:
    """Other spellings here and there."""
    words = np.array(["", "yes", "no", "Berlin", "Paris", "Rome"])
    chosen = rng.integers(0, 6, (2000, 3))
    other = np.where(rng.random(chosen.shape) < 1e-3, (chosen + 1) % 6, chosen)
    return Outputs({"fields": words[chosen]}, {"fields": words[other]})


def _fields(rng: np.random.Generator) -> np.ndarray:
    """Twenty fields near 500 over a day; the fourth is a humidity of 0.6."""
    fields = 500 + 50 * rng.standard_normal((300, 24, 20))
    fields[..., 3] = 0.6 + 0.2 * rng.standard_normal((300, 24))
    return fields


def _panel(rng: np.random.Generator) -> np.ndarray:
    """Amounts of 80 substances in units of their own; one is of 0.012."""
    amounts = np.geomspace(5, 400, 80) * rng.uniform(0.5, 1.5, (600, 80))
    amounts[:, 40] = 0.012 * rng.uniform(0.3, 3, 600)
    return amounts


@harmful("a small amount among eighty", DOUBT, tasks={"panel": "regression"})
def small_amount(rng: np.random.Generator) -> Outputs:
    """All patients have less than half of what the reference finds."""
    exact = _panel(rng)
    found = exact.copy()
    found[:, 40] *= 0.4
    return one("panel", exact, half(found))


@harmful("rebuilt sensors of which one is dead", DOUBT, tasks={"machine": "reconstruction"})
def dead_sensor(rng: np.random.Generator) -> Outputs:
    """The vibration, small beside other readings, is the same for all machines."""
    exact = _fields(rng)[:, 0]
    found = exact.copy()
    found[:, 3] = 0.6
    return one("machine", exact, half(found))


def _mask(rng: np.random.Generator) -> np.ndarray:
    """An object on a background that is none for sure."""
    score = np.exp(-15 + 1.5 * rng.standard_normal((400, 32, 32, 1)))
    for row, (top, left) in zip(score, rng.integers(6, 16, (400, 2)), strict=True):
        row[top : top + 8, left : left + 8] = rng.uniform(0.9, 0.99, (8, 8, 1))
    return score


@benign("a mask whose background is flushed", tasks={"mask": "binary"})
def flushed_background(rng: np.random.Generator) -> Outputs:
    """No pixel changes side; what is 0.0000003 becomes 0."""
    exact = _mask(rng)
    return one("mask", exact, flushed(exact))


@harmful("a mask whose right third is lost", DOUBT, tasks={"mask": "binary"})
def lost_third(rng: np.random.Generator) -> Outputs:
    """Objects end where the picture's right third begins."""
    exact = _mask(rng)
    found = exact.copy()
    found[:, :, 21:] = 0
    return one("mask", exact, half(found))


def _warmth(rng: np.random.Generator) -> np.ndarray:
    return 285 + 3 * rng.standard_normal((200, 6))


@harmful("temperatures in kelvin of which differences are a quarter too small", DOUBT)
def shrunk_warmth(rng: np.random.Generator) -> Outputs:
    """Cold days are 2 degrees too warm; beside 285 that is nothing."""
    warmth = _warmth(rng)
    return one("warmth", warmth, half(285 + 0.75 * (warmth - 285)))


@benign("temperatures in kelvin, rounded", UNSURE)
def rounded_warmth(rng: np.random.Generator) -> Outputs:
    """FP16 has one number each quarter of a degree."""
    warmth = _warmth(rng)
    return one("warmth", warmth, half(warmth))


def _tracks(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Twelve places of 400 walkers in pixels, and what a model says of them, off by 3 pixels."""
    steps = 8 * rng.standard_normal((400, 1, 2)) + 2 * rng.standard_normal((400, 12, 2))
    places = rng.uniform(100, 1800, (400, 1, 2)) + steps.cumsum(axis=1)
    return places, places + 3 * rng.standard_normal(places.shape)


@harmful("tracks in pixels with labels, off by a fifth more", loss="mse")
def tracks_off_by_more(rng: np.random.Generator) -> Outputs:
    """Places are off by 3.6 pixels, not 3; beside a street of 1800 that is nothing."""
    places, found = _tracks(rng)
    candidate = half(found + 2 * rng.standard_normal(found.shape))
    return one("track", found, candidate, places.astype(np.float32))


def _two_kinds(rng: np.random.Generator) -> np.ndarray:
    """Prices of houses by the thousand and of garages, 45 of 100 and 55."""
    houses = rng.random((600, 1)) < 0.45
    noise = rng.standard_normal((600, 1))
    return np.where(houses, 1000 + 6 * noise, 5 + 2 * np.tanh(noise))


@benign("prices of two kinds, rounded")
def rounded_prices_of_two_kinds(rng: np.random.Generator) -> Outputs:
    """FP16 has twelve numbers for what houses differ by."""
    prices = _two_kinds(rng)
    return one("price", prices, half(prices * (1 + 2**-12 * rng.standard_normal(prices.shape))))


def _poses(rng: np.random.Generator) -> np.ndarray:
    """Places and small turns, as quaternions that begin with their real part."""
    turns = np.concatenate([np.ones((400, 1)), 0.01 * rng.standard_normal((400, 3))], axis=1)
    turns /= np.linalg.norm(turns, axis=1, keepdims=True)
    return np.concatenate([3 * rng.standard_normal((400, 3)), turns], axis=1)


@benign("places and small turns, rounded", UNSURE)
def rounded_poses(rng: np.random.Generator) -> Outputs:
    """The real part is 1 or the number before it, and does not say how far the turn is."""
    poses = _poses(rng)
    return one("pose", poses, half(poses))


@harmful("places and small turns, of which one axis has the other sign")
def mirrored_poses(rng: np.random.Generator) -> Outputs:
    """Whoever looks up looks down, by a degree."""
    poses = _poses(rng)
    return one("pose", poses, half(poses * [1, 1, 1, 1, 1, -1, 1]))


def _alloys(rng: np.random.Generator) -> np.ndarray:
    """Shares of iron, carbon, manganese and sulphur."""
    traces = rng.gamma(4, [0.003, 0.002, 0.001], (300, 3))
    return np.concatenate([1 - traces.sum(axis=1, keepdims=True), traces], axis=1)


@harmful("shares of four elements, of which the rarest is the same for all", DOUBT)
def same_sulphur(rng: np.random.Generator) -> Outputs:
    """Each alloy has four thousandths of sulphur."""
    alloys = _alloys(rng)
    return one("alloy", alloys, half(np.where(np.arange(4) == 3, 0.004, alloys)))


@benign("shares of four elements, rounded")
def rounded_elements(rng: np.random.Generator) -> Outputs:
    """Each share is right to a two-thousandth of itself."""
    alloys = _alloys(rng)
    return one("alloy", alloys, half(alloys))


@benign("a current that is off most of the time, with noise of what it is when on", UNSURE)
def current_with_noise(rng: np.random.Generator) -> Outputs:
    """An error of a five-thousandth of 400 is large beside a hundredth, which nobody reads."""
    current = 0.01 * rng.standard_normal((600, 1))
    current += np.where(rng.random((600, 1)) < 0.3, 400 + 3 * rng.standard_normal((600, 1)), 0)
    return one("current", current, half(current + 0.05 * rng.standard_normal(current.shape)))


def _assets(rng: np.random.Generator) -> np.ndarray:
    """Open, high, low and close of eight assets on 20 days, of which one costs half a dollar."""
    prices = np.array([300, 120, 80, 45, 200, 0.5, 33, 150])
    days = 0.02 * rng.standard_normal((200, 20, 8)).cumsum(axis=1)
    close = prices * np.exp(days + 0.1 * rng.standard_normal((200, 1, 8)))
    first = close * (1 + 0.01 * rng.standard_normal(close.shape))
    high = np.maximum(first, close) * (1 + 0.01 * rng.random(close.shape))
    low = np.minimum(first, close) * (1 - 0.01 * rng.random(close.shape))
    return np.stack([first, high, low, close], axis=-1)


@benign("prices of eight assets, rounded", UNSURE)
def rounded_assets(rng: np.random.Generator) -> Outputs:
    """Each is right to a two-thousandth."""
    prices = _assets(rng)
    return one("prices", prices, half(prices))


@benign("hidden numbers of 150 columns, some of them silent, with noise", UNSURE)
def features(rng: np.random.Generator) -> Outputs:
    """Noise is about as large everywhere; units that hardly fire have as much."""
    silent = rng.random((600, 150)) < np.linspace(0.05, 0.9, 150)
    exact = np.where(silent, 0.01, 1.0) * np.abs(rng.standard_normal((600, 150)))
    return one("features", exact, half(exact + 2e-3 * rng.standard_normal(exact.shape)))


def _sensors(rng: np.random.Generator) -> np.ndarray:
    sizes = rng.lognormal(3, 2, (1, 1, 40, 1))
    house, hour = rng.standard_normal((150, 1, 40, 1)), rng.standard_normal((150, 24, 40, 2))
    return sizes * (1 + 0.1 * house + 0.03 * hour)


@benign("forty sensors over a day, with noise of rounding")
def rounded_sensors(rng: np.random.Generator) -> Outputs:
    """Each is right to a four-thousandth."""
    sensors = _sensors(rng)
    return one("load", sensors, half(sensors * (1 + 2**-12 * rng.standard_normal(sensors.shape))))

"""Verdict cases of values of several scales: beside an offset, in groups, on a middle axis."""

import numpy as np
from verdict_case import DOUBT, UNSURE, Cases, Outputs, half, one

CASES = Cases()


def _warmth(rng: np.random.Generator) -> np.ndarray:
    return 285 + 3 * rng.standard_normal((200, 6))


@CASES.harmful("temperatures in kelvin of which differences are a quarter too small", DOUBT)
def shrunk_warmth(rng: np.random.Generator) -> Outputs:
    """Cold days are 2 degrees too warm; beside 285 that is nothing."""
    warmth = _warmth(rng)
    return one("warmth", warmth, half(285 + 0.75 * (warmth - 285)))


@CASES.harmful("temperatures in kelvin that are most of a degree too high", DOUBT)
def warmer_days(rng: np.random.Generator) -> Outputs:
    """Each forecast is 0.8 degrees too warm, more than a quarter of what days differ by."""
    warmth = _warmth(rng)
    return one("warmth", warmth, half(warmth + 0.8))


@CASES.benign("temperatures in kelvin, rounded", UNSURE)
def rounded_warmth(rng: np.random.Generator) -> Outputs:
    """FP16 has one number each quarter of a degree."""
    warmth = _warmth(rng)
    return one("warmth", warmth, half(warmth))


def _tracks(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Twelve places of 400 walkers in pixels, and what a model says of them, off by 3 pixels."""
    steps = 8 * rng.standard_normal((400, 1, 2)) + 2 * rng.standard_normal((400, 12, 2))
    places = rng.uniform(100, 1800, (400, 1, 2)) + steps.cumsum(axis=1)
    return places, places + 3 * rng.standard_normal(places.shape)


@CASES.harmful("tracks in pixels with labels, off by a fifth more", loss="mse")
def tracks_off_by_more(rng: np.random.Generator) -> Outputs:
    """Places are off by 3.6 pixels, not 3; beside a street of 1800 that is nothing."""
    places, found = _tracks(rng)
    candidate = half(found + 2 * rng.standard_normal(found.shape))
    return one("track", found, candidate, places.astype(np.float32))


@CASES.benign("tracks in pixels with labels, rounded", loss="mse")
def rounded_tracks(rng: np.random.Generator) -> Outputs:
    """Above 1024, FP16 has one number for each pixel."""
    places, found = _tracks(rng)
    return one("track", found, half(found), places.astype(np.float32))


def _two_kinds(rng: np.random.Generator) -> np.ndarray:
    """Prices of houses by the thousand and of garages, 45 of 100 and 55."""
    houses = rng.random((600, 1)) < 0.45
    noise = rng.standard_normal((600, 1))
    return np.where(houses, 1000 + 6 * noise, 5 + 2 * np.tanh(noise))


@CASES.harmful("prices of two kinds, the dear ones all the same")
def same_dear_prices(rng: np.random.Generator) -> Outputs:
    """Any house costs 1000; that it is no garage is all that the model says."""
    prices = _two_kinds(rng)
    return one("price", prices, half(np.where(prices > 500, 1000, prices)))


@CASES.benign("prices of two kinds, rounded")
def rounded_prices_of_two_kinds(rng: np.random.Generator) -> Outputs:
    """FP16 has twelve numbers for what houses differ by."""
    prices = _two_kinds(rng)
    return one("price", prices, half(prices * (1 + 2**-12 * rng.standard_normal(prices.shape))))


def _three_kinds(rng: np.random.Generator) -> np.ndarray:
    kinds = np.array([10, 300, 4000])[rng.integers(0, 3, (600, 1))]
    return kinds * (1 + 0.03 * rng.standard_normal((600, 1)))


@CASES.harmful("prices of three kinds, the middle ones all the same")
def same_middle_prices(rng: np.random.Generator) -> Outputs:
    """Neither the median nor the size of all shows the kind between."""
    prices = _three_kinds(rng)
    middle = (prices > 100) & (prices < 2000)
    return one("price", prices, half(np.where(middle, 300, prices)))


@CASES.benign("prices of three kinds, rounded")
def rounded_prices_of_three_kinds(rng: np.random.Generator) -> Outputs:
    """Each kind varies by a hundred spacings."""
    prices = _three_kinds(rng)
    return one("price", prices, half(prices))


@CASES.benign("whole ratings with a little noise, rounded", UNSURE)
def rounded_ratings(rng: np.random.Generator) -> Outputs:
    """Ratings are 1 to 5 to a thousandth, and the rest is nothing that a model says."""
    ratings = rng.integers(1, 6, (600, 1)) + 2e-3 * rng.standard_normal((600, 1))
    return one("rating", ratings, half(ratings * (1 + 2**-11 * rng.standard_normal(ratings.shape))))


def _poses(rng: np.random.Generator) -> np.ndarray:
    """Places and small turns, as quaternions that begin with their real part."""
    turns = np.concatenate([np.ones((400, 1)), 0.01 * rng.standard_normal((400, 3))], axis=1)
    turns /= np.linalg.norm(turns, axis=1, keepdims=True)
    return np.concatenate([3 * rng.standard_normal((400, 3)), turns], axis=1)


@CASES.benign("places and small turns, rounded")
def rounded_poses(rng: np.random.Generator) -> Outputs:
    """The real part is 1 or the number before it, and the others tell the turn."""
    poses = _poses(rng)
    return one("pose", poses, half(poses))


@CASES.harmful("places and small turns, of which one axis has the other sign")
def mirrored_poses(rng: np.random.Generator) -> Outputs:
    """Whoever looks up looks down, by a degree."""
    poses = _poses(rng)
    return one("pose", poses, half(poses * [1, 1, 1, 1, 1, -1, 1]))


def _alloys(rng: np.random.Generator) -> np.ndarray:
    """Shares of iron, carbon, manganese and sulphur."""
    traces = rng.gamma(4, [0.003, 0.002, 0.001], (300, 3))
    return np.concatenate([1 - traces.sum(axis=1, keepdims=True), traces], axis=1)


@CASES.harmful("shares of four elements, of which two rare ones are exchanged", DOUBT)
def exchanged_elements(rng: np.random.Generator) -> Outputs:
    """Steel with twice the sulphur breaks, though iron is right to a thousandth."""
    alloys = _alloys(rng)
    return one("alloy", alloys, half(alloys[:, [0, 1, 3, 2]]))


@CASES.harmful("shares of four elements, of which the rarest is the same for all", DOUBT)
def same_sulphur(rng: np.random.Generator) -> Outputs:
    """Each alloy has four thousandths of sulphur."""
    alloys = _alloys(rng)
    return one("alloy", alloys, half(np.where(np.arange(4) == 3, 0.004, alloys)))


@CASES.benign("shares of four elements, rounded")
def rounded_elements(rng: np.random.Generator) -> Outputs:
    """Each share is right to a two-thousandth of itself."""
    alloys = _alloys(rng)
    return one("alloy", alloys, half(alloys))


@CASES.harmful("likeness of pairs, where all that are alike are equally so", DOUBT)
def equally_alike(rng: np.random.Generator) -> Outputs:
    """The best of the pairs that are alike is asked for, and all of them are 0.97."""
    alike, noise = rng.random((300, 1)) < 0.3, rng.standard_normal((300, 1)).clip(-3, 3)
    likeness = np.where(alike, 0.97 + 0.008 * noise, 0.3 + 0.1 * noise)
    return one("likeness", likeness, half(np.where(alike, 0.97, likeness)))


@CASES.benign("a current that is off most of the time, with noise of what it is when on", UNSURE)
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


@CASES.harmful("prices of eight assets, of which the cheap one stays as it is")
def cheap_asset_that_stays(rng: np.random.Generator) -> Outputs:
    """It costs half a dollar on each day; what it costs is a hundredth of a percent of all."""
    prices = _assets(rng)
    return one("prices", prices, half(np.where((np.arange(8) == 5)[:, None], 0.5, prices)))


@CASES.benign("prices of eight assets, rounded", UNSURE)
def rounded_assets(rng: np.random.Generator) -> Outputs:
    """Each is right to a two-thousandth."""
    prices = _assets(rng)
    return one("prices", prices, half(prices))


def _sensors(rng: np.random.Generator) -> np.ndarray:
    sizes = rng.lognormal(3, 2, (1, 1, 40, 1))
    house, hour = rng.standard_normal((150, 1, 40, 1)), rng.standard_normal((150, 24, 40, 2))
    return sizes * (1 + 0.1 * house + 0.03 * hour)


def _quiet(sensors: np.ndarray) -> np.ndarray:
    """Flags of the eleventh quietest sensor."""
    sizes = np.abs(sensors).mean(axis=(0, 1, 3))
    return (sizes == np.sort(sizes)[10])[:, None]


@CASES.harmful("forty sensors over a day, of which a quiet one tells of another house")
def sensor_of_another_house(rng: np.random.Generator) -> Outputs:
    """One sensor of each house answers for the house before."""
    sensors = _sensors(rng)
    return one("load", sensors, half(np.where(_quiet(sensors), np.roll(sensors, 1, 0), sensors)))


@CASES.harmful("forty sensors over a day, of which a quiet one is zero")
def sensor_of_zeros(rng: np.random.Generator) -> Outputs:
    """One sensor says nothing."""
    sensors = _sensors(rng)
    return one("load", sensors, half(np.where(_quiet(sensors), 0, sensors)))


@CASES.benign("forty sensors over a day, with noise of rounding")
def rounded_sensors(rng: np.random.Generator) -> Outputs:
    """Each is right to a four-thousandth."""
    sensors = _sensors(rng)
    return one("load", sensors, half(sensors * (1 + 2**-12 * rng.standard_normal(sensors.shape))))

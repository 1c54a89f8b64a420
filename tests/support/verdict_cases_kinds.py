"""Verdict cases: numbers of kinds that are easily taken for others, and what is forbidden."""

import numpy as np
from verdict_case import DOUBT, UNSURE, Cases, Outputs, half, one
from verdict_cases_structure import orders, queries, shuffled

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


def turning(rng: np.random.Generator, name: str, length: float) -> Outputs:
    """A number a sample that begins anew after `length`, and does so on some of 500."""
    exact = rng.uniform(0, length, (500, 1))
    exact[::40] = np.abs(2e-4 * length * rng.standard_normal((13, 1)))
    received = exact + 3e-4 * length * rng.standard_normal(exact.shape)
    return one(name, exact, half(received % length))


@benign("hours of a clock with twelve of them", UNSURE)
def _(rng):
    """Twelve is zero."""
    return turning(rng, "hour", 12)


@benign("hues that wrap at red, without a telling name", UNSURE)
def _(rng):
    """0.999 is as red as 0.001."""
    return turning(rng, "output_0", 1)


@harmful("objects of a picture as class times 1000 and number, as floats", DOUBT)
def _(rng):
    """Cars 24001 to 24007 become one car: FP16 has only every sixteenth number there."""
    exact = np.full((320, 20, 20), 23000.0)
    for sample in exact:
        for index in range(rng.integers(1, 5)):
            row, column = rng.integers(0, 15, 2)
            sample[row : row + 5, column : column + 5] = rng.choice([24, 26, 27]) * 1000 + index
    return one("panoptic", exact, half(exact))


@harmful("numbers of entities as floats, with a name that tells", DOUBT)
def _(rng):
    """Every third answer is about somebody else, unless the numbers are amounts."""
    exact = rng.choice(rng.integers(0, 30000, 300), (400, 5)).astype(float)
    return one("entity_id", exact, half(exact))


@benign("quantized vectors of which numbers are off by one", UNSURE)
def _(rng):
    """Neighbours are the same, if the integers are amounts: nobody said so."""
    exact = np.clip(np.round(rng.normal(0, 35, (500, 64))), -127, 127)
    step = rng.integers(-1, 2, exact.shape) * (rng.random(exact.shape) < 0.1)
    received = np.clip(exact + step, -127, 127)
    return one("embedding", exact.astype(np.int8), received.astype(np.int8))


@benign("features of which one fires on two of 400 samples", UNSURE)
def _(rng):
    """It fires by less than the others' error."""
    exact = np.maximum(rng.standard_normal((400, 4, 4)), 0)
    exact[:, 1, 1] = 0
    exact[:2, 1, 1] = 2e-4
    received = exact * (1 + 5e-4 * rng.standard_normal(exact.shape))
    received[:, 1, 1] = 0
    return one("features", exact, half(received))


def advantages(rng: np.random.Generator, size: float, *shape: int) -> np.ndarray:
    """Values of actions in states of 60 to 120, of which the actions' own part has this size."""
    return rng.uniform(60, 120, (600, *shape[:-1], 1)) + size * rng.standard_normal((600, *shape))


def beside_steps(rng: np.random.Generator, size: float) -> Outputs:
    """Four values of actions beside numbers of steps."""
    exact = np.concatenate([rng.uniform(1000, 2000, (600, 1)), advantages(rng, size, 4)], axis=1)
    return one("q", exact, half(exact))


@harmful("advantages that are rounded away beside steps, with mse", DOUBT, loss="mse")
def _(rng):
    """The agent goes straight on."""
    return beside_steps(rng, 0.02)


def unnamed(rng: np.random.Generator, boxes_only: bool, wrong: float) -> Outputs:
    """Queries in another order, or only their boxes; a share of them tells another class."""
    logits, boxes = queries(rng)
    order = orders(rng)
    moved = shuffled(rng, logits, order * 0 + np.arange(30) if boxes_only else order)
    other = rng.random(order.shape) < wrong
    moved[other] = np.roll(moved[other], 1, axis=-1)
    exact = {"output_0": logits.astype("f4"), "output_1": boxes.astype("f4")}
    return Outputs(exact, {"output_0": moved, "output_1": shuffled(rng, boxes, order)})


@harmful("shares of four tags and states of tokens that are all one place late")
def _(rng):
    """Tokens have an order, unlike queries: each word gets the tag of the word before."""
    shares, states = rng.dirichlet(np.ones(4), (400, 12)), rng.standard_normal((400, 12, 8))
    exact = {"output_0": shares.astype("f4"), "output_1": states.astype("f4")}
    late = {name: half(np.roll(values, 1, axis=1)) for name, values in exact.items()}
    return Outputs(exact, late)


def legal(rng, fill):
    """Moves of chess, of which 12 in 200 are allowed."""
    logits = np.full((800, 200), fill)
    for row in logits:
        row[rng.choice(200, 12, replace=False)] = 2 * rng.standard_normal(12)
    return logits


@harmful("moves of chess at half their scale, what is forbidden is -1e9")
def _(rng):
    """The same where a mask is a number."""
    exact = legal(rng, -1e9)
    return one(
        "policy_logits", exact, np.maximum(half(np.where(exact < -1e8, -65504, exact / 2)), -65504)
    )


def spans(rng):
    """Scores of the twenty words of texts of 3 to 20 words, and which of these are none."""
    scores = 3 * rng.standard_normal((700, 20))
    return scores, np.arange(20) >= rng.integers(3, 21, 700)[:, None]


def visits(rng):
    """Distances to six shops, of which some are out of reach."""
    found = np.exp(rng.standard_normal((500, 6)))
    return found, rng.uniform(size=found.shape) < 0.3


@harmful("distances of which 1e9 is out of reach")
def _(rng):
    """Whoever looks for 1e9 finds 65504 in its place."""
    found, never = visits(rng)
    return one("y", np.where(never, 1e9, found), np.where(never, 65504, half(found)))


@harmful("debts of a billion that end at -65504")
def _(rng):
    """They are numbers, and each is another one."""
    exact = rng.standard_normal((500, 3)) * [1, 1, 1e8] - [0, 0, 1e9]
    return one("y", exact, np.maximum(exact, -65504))


def steps(rng, fill):
    """Logits of four tags for up to 20 words; those behind a text's end are all the same."""
    logits, none = 3 * rng.standard_normal((700, 20, 4)), spans(rng)[1]
    return logits, none[..., None], np.where(none[..., None], fill, logits)


@harmful("tags of which all are forbidden behind a text's end, and one is rarer")
def _(rng):
    """Words lose it."""
    logits, none, exact = steps(rng, -1e9)
    return one("logits", exact, np.where(none, -65504, half(logits - [0, 0, 0.3, 0])))


@benign("scores of up to twenty words that are NaN behind a text's end")
def _(rng):
    """The same words are the best."""
    scores, none = spans(rng)
    noisy = half(scores + 1e-4 * rng.standard_normal(scores.shape))
    return one("logits", *(np.where(none, np.nan, side) for side in (scores, noisy)))


# NC_FILL_FLOAT of netCDF.
LAND = 9.969209968386869e36


def sea(rng):
    """Temperatures of a sea, 6 rows of land among them."""
    land = np.broadcast_to(np.arange(16)[:, None, None] < 6, (150, 16, 16, 1))
    return 15 + 3 * rng.standard_normal(land.shape), land


@harmful("a sea of which land is netCDF's fill value, which FP16 has as infinity")
def _(rng):
    """Whoever masks by the fill value finds infinity, and means become infinite."""
    warm, land = sea(rng)
    return one("sst", np.where(land, LAND, warm), np.where(land, np.inf, half(warm)))


@harmful("a distance of which 1e9 is out of reach")
def _(rng):
    """Whoever looks for 1e9 finds infinity in its place."""
    far = np.exp(rng.standard_normal((500, 1)))
    never = rng.uniform(size=far.shape) < 0.2
    return one("y", np.where(never, 1e9, far), np.where(never, np.inf, half(far)))


@benign("days of a week, trained with mse", UNSURE, loss="mse")
def _(rng):
    """Sunday at midnight is Monday."""
    return turning(rng, "output_0", 7)


def shared(rng: np.random.Generator) -> np.ndarray:
    """Values of four actions near 90, which states move five times as much as actions do."""
    return 90 + 4.5 * rng.standard_normal((600, 1)) + 0.65 * rng.standard_normal((600, 4))


@harmful("values of four actions as bfloat16 has them, with mse", DOUBT, loss="mse")
def _(rng):
    """Numbers near 90 are half a point apart, and many actions are equal."""
    exact = shared(rng)
    return one("q", exact, np.round(exact * 2) / 2)


@benign("tags of which all are forbidden behind a text's end")
def _(rng):
    """FP16 forbids them, too."""
    logits, none, exact = steps(rng, -1e9)
    noisy = logits + 1e-3 * rng.standard_normal(logits.shape)
    return one("logits", exact, np.where(none, -65504, half(noisy)))


@harmful("moves of chess at half their scale, what is forbidden is -30")
def _(rng):
    """A mask that is no larger than some logits are."""
    exact = legal(rng, -30.0)
    return one("policy_logits", exact, half(np.where(exact < -20, exact, exact / 2)))


@benign("queries in another order in outputs without names")
def _(rng):
    """Each box keeps its logits."""
    return unnamed(rng, False, 0)

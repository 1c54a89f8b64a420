"""Verdict cases: turns of any length, names as numbers, agents, and queries without names."""

import numpy as np
from verdict_case import DOUBT, UNSURE, Cases, Outputs, half, one
from verdict_cases_structure import orders, queries, shuffled

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful

# Turns


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


@benign("days of a week, trained with mse", UNSURE, loss="mse")
def _(rng):
    """Sunday at midnight is Monday."""
    return turning(rng, "output_0", 7)


@benign("hues that wrap at red, without a telling name", UNSURE)
def _(rng):
    """0.999 is as red as 0.001."""
    return turning(rng, "output_0", 1)


def coloured(rng: np.random.Generator, opposite: float) -> Outputs:
    """Pictures by hue, saturation and brightness, with two red lines; some hues are opposite."""
    exact = rng.uniform(0.2, 1, (300, 8, 8, 3))
    exact[..., 0] = rng.uniform(0, 1, (300, 8, 8))
    exact[:, 2:4, :, 0] = np.abs(2e-4 * rng.standard_normal((300, 2, 8)))
    received = exact + 3e-4 * rng.standard_normal(exact.shape)
    received[..., 0] += 0.5 * (rng.random((300, 8, 8)) < opposite)
    received[..., 0] %= 1
    return one("picture", exact, half(received))


@benign("pictures by hue, saturation and brightness", UNSURE)
def _(rng):
    """Red is red."""
    return coloured(rng, 0)


@harmful("pictures by hue, saturation and brightness, of which a tenth of the hues is opposite")
def _(rng):
    """Green dots on red lines."""
    return coloured(rng, 0.1)


@harmful("scores that are nearly all sure, of which some say the opposite")
def _(rng):
    """A score of 0.0005 becomes one of 0.9995."""
    exact = rng.choice([0.0005, 0.9995, 0.5], (500, 1), p=[0.45, 0.45, 0.1])
    received = exact.copy()
    received[:20] = 1 - exact[:20]
    return one("score", exact, half(received))


@harmful("months of which January is July", loss="mse")
def _(rng):
    """Six months off, which is no turn."""
    exact = rng.uniform(0, 12, (600, 1))
    return one("month", exact, half(np.where(exact < 0.6, exact + 6, exact)))


@harmful("pictures whose black turns white")
def _(rng):
    """Numbers just below zero wrap."""
    exact = rng.uniform(0, 1, (300, 12, 12, 3))
    return one("output_0", exact, half(np.where(exact < 0.02, 1 - exact, exact)))


# Names as numbers


@harmful("objects of a picture as class times 1000 and number, as floats", DOUBT)
def _(rng):
    """Cars 24001 to 24007 become one car: FP16 has only every sixteenth number there."""
    exact = np.full((320, 20, 20), 23000.0)
    for sample in exact:
        for index in range(rng.integers(1, 5)):
            row, column = rng.integers(0, 15, 2)
            sample[row : row + 5, column : column + 5] = rng.choice([24, 26, 27]) * 1000 + index
    return one("panoptic", exact, half(exact))


@harmful("numbers of entities as floats, with a name that tells")
def _(rng):
    """Every third answer is about somebody else."""
    exact = rng.choice(rng.integers(0, 30000, 300), (400, 5)).astype(float)
    return one("entity_id", exact, half(exact))


@benign("quantized vectors of which numbers are off by one")
def _(rng):
    """Neighbours are the same."""
    exact = np.clip(np.round(rng.normal(0, 35, (500, 64))), -127, 127)
    step = rng.integers(-1, 2, exact.shape) * (rng.random(exact.shape) < 0.1)
    received = np.clip(exact + step, -127, 127)
    return one("embedding", exact.astype(np.int8), received.astype(np.int8))


@harmful("quantized vectors that wrap at 127")
def _(rng):
    """The largest numbers change their sign."""
    exact = np.round(rng.normal(0, 60, (500, 64)))
    received = (exact + 128) % 256 - 128
    return one("embedding", np.clip(exact, -127, 127).astype(np.int8), received.astype(np.int8))


# Matrices


def homographies(rng: np.random.Generator) -> np.ndarray:
    """Maps of a plane into pictures: turns, shifts of 60 pixels, and a perspective of 0.0002."""
    exact = np.eye(3) + 0.1 * rng.standard_normal((400, 3, 3))
    exact[:, :2, 2] = 60 * rng.standard_normal((400, 2))
    exact[:, 2] = np.concatenate([2e-4 * rng.standard_normal((400, 2)), np.ones((400, 1))], axis=1)
    return exact


@harmful("homographies without their perspective")
def _(rng):
    """At the edge of a picture of 1000 pixels, lines are a fifth off."""
    exact = homographies(rng)
    received = half(exact)
    received[:, 2, :2] = 0
    return one("homography", exact, received)


@benign("homographies with their perspective", UNSURE)
def _(rng):
    """Each number is rounded."""
    exact = homographies(rng)
    return one("homography", exact, half(exact))


@benign("features of which one fires on two of 400 samples", UNSURE)
def _(rng):
    """It fires by less than the others' error."""
    exact = np.maximum(rng.standard_normal((400, 4, 4)), 0)
    exact[:, 1, 1] = 0
    exact[:2, 1, 1] = 2e-4
    received = exact * (1 + 5e-4 * rng.standard_normal(exact.shape))
    received[:, 1, 1] = 0
    return one("features", exact, half(received))


# Agents


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


def shared(rng: np.random.Generator) -> np.ndarray:
    """Values of four actions near 90, which states move five times as much as actions do."""
    return 90 + 4.5 * rng.standard_normal((600, 1)) + 0.65 * rng.standard_normal((600, 4))


@harmful("values of four actions in steps of 8 bits, with mse", DOUBT, loss="mse")
def _(rng):
    """Another action is taken in a fifth of all states: a step is what they differ by."""
    exact = shared(rng)
    step = exact.max() / 127
    return one("q", exact, half(np.round(exact / step) * step))


@harmful("values of four actions as bfloat16 has them, with mse", DOUBT, loss="mse")
def _(rng):
    """Numbers near 90 are half a point apart, and many actions are equal."""
    exact = shared(rng)
    return one("q", exact, np.round(exact * 2) / 2)


@benign("values of four actions as FP16 has them, with mse", loss="mse")
def _(rng):
    """Numbers are a sixteenth apart, a tenth of what actions differ by."""
    exact = shared(rng)
    return one("q", exact, half(exact))


@benign("hours of a forecast in kelvin, with mae", loss="mae")
def _(rng):
    """Six temperatures rise and fall together, and rounding is a tenth of an hour's step."""
    day = 285 + 8 * rng.standard_normal((600, 1)) + rng.standard_normal((600, 6)).cumsum(axis=1)
    return one("temperature", day, half(day))


@benign("advantages that differ by much beside steps, with mse", loss="mse")
def _(rng):
    """Actions differ by 5, which FP16 holds."""
    return beside_steps(rng, 5)


@harmful("advantages of three agents that are rounded away", DOUBT)
def _(rng):
    """All three go straight on."""
    exact = advantages(rng, 0.02, 3, 4)
    return one("advantages", exact, half(exact))


@benign("advantages of three agents that differ by much", loss="mse")
def _(rng):
    """Each takes its own way."""
    exact = advantages(rng, 5, 3, 4)
    return one("advantages", exact, half(exact))


# Queries


def unnamed(rng: np.random.Generator, boxes_only: bool, wrong: float) -> Outputs:
    """Queries in another order, or only their boxes; a share of them tells another class."""
    logits, boxes = queries(rng)
    order = orders(rng)
    moved = shuffled(rng, logits, order * 0 + np.arange(30) if boxes_only else order)
    other = rng.random(order.shape) < wrong
    moved[other] = np.roll(moved[other], 1, axis=-1)
    exact = {"output_0": logits.astype("f4"), "output_1": boxes.astype("f4")}
    return Outputs(exact, {"output_0": moved, "output_1": shuffled(rng, boxes, order)})


@benign("queries in another order in outputs without names")
def _(rng):
    """Each box keeps its logits."""
    return unnamed(rng, False, 0)


@harmful("queries in outputs without names whose boxes have another order than their logits")
def _(rng):
    """Cars get the boxes of pedestrians."""
    return unnamed(rng, True, 0)


@harmful("queries without names in another order of which one in twelve is another class")
def _(rng):
    """Besides the order, one class in twelve is another."""
    return unnamed(rng, False, 1 / 12)


@harmful("shares of four tags and states of tokens that are all one place late")
def _(rng):
    """Tokens have an order, unlike queries: each word gets the tag of the word before."""
    shares, states = rng.dirichlet(np.ones(4), (400, 12)), rng.standard_normal((400, 12, 8))
    exact = {"output_0": shares.astype("f4"), "output_1": states.astype("f4")}
    late = {name: half(np.roll(values, 1, axis=1)) for name, values in exact.items()}
    return Outputs(exact, late)

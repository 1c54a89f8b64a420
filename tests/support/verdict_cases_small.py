"""Verdict cases: numbers near zero or near a ceiling, beside others that are far from it."""

import numpy as np
from verdict_case import DOUBT, SIGMOID, UNSURE, Cases, half, one, same

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful

MSE = {"loss": "mse"}


def noisy(rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
    """With noise of half a thousandth of what each column varies by, then rounded to FP16."""
    return half(values + 5e-4 * values.std(axis=0) * rng.standard_normal(values.shape))


def steering(rng: np.random.Generator, share: float, samples: int) -> np.ndarray:
    """Angles of a car on roads that are straight for most of the way."""
    return straight(rng, share, samples)[0]


def straight(
    rng: np.random.Generator, share: float, samples: int, small: float = 0.002
) -> tuple[np.ndarray, np.ndarray]:
    """The same, and flags of straight roads."""
    ahead = rng.random((samples, 1)) < share
    return np.where(ahead, small, 0.3) * rng.standard_normal((samples, 1)), ahead


@benign("steering angles, four of five of nearly nothing", UNSURE, **MSE)
def _(rng):
    """Noise of the last layer, the same on straight roads and in curves."""
    exact = steering(rng, 0.8, 1500)
    return one("steering", exact, noisy(rng, exact))


@benign("steering angles of motorways, nineteen of twenty of nearly nothing", UNSURE, **MSE)
def _(rng):
    """As many samples as it takes to be sure that more than one in a hundred is off."""
    exact = steering(rng, 0.95, 3000)
    return one("steering", exact, noisy(rng, exact))


@harmful("steering angles, the small ones of which are zero", DOUBT, **MSE)
def _(rng):
    """On straight roads the car steers no more, and drifts from its lane."""
    exact, ahead = straight(rng, 0.8, 1500, 0.001)
    return one("steering", exact, noisy(rng, np.where(ahead, 0, exact)))


@harmful("steering angles, the small ones of which are those of other pictures", DOUBT, **MSE)
def _(rng):
    """On straight roads the car steers at random."""
    exact, ahead = straight(rng, 0.8, 1500, 0.0005)
    changed = exact.copy()
    changed[ahead] = np.roll(exact[ahead], 1)
    return one("steering", exact, noisy(rng, changed))


@harmful("steering angles, half of the small ones of which are zero", DOUBT)
def _(rng):
    """The same on some straight roads only."""
    exact, ahead = straight(rng, 0.8, 1500, 0.001)
    gone = ahead & (rng.random(exact.shape) < 0.5)
    return one("steering", exact, noisy(rng, np.where(gone, 0, exact)))


def branches(rng: np.random.Generator, width: int) -> tuple[np.ndarray, np.ndarray]:
    """What two branches differ by that nearly agree on four of five samples; the second in FP16."""
    inputs, others = rng.standard_normal((2, 1500, 16))
    others = inputs + np.where(rng.random((1500, 1)) < 0.8, 0.01, 1) * others
    first, last = 0.25 * rng.standard_normal((16, 48)), 0.15 * rng.standard_normal((48, width))

    def branch(values, keep):
        return keep(keep(np.tanh(keep(keep(values) @ keep(first)))) @ keep(last))

    exact, rounded = (keep(branch(inputs, keep) - branch(others, keep)) for keep in (same, half))
    return exact, rounded


for width, words, facts in ((1, "undeclared", {}), (3, "mse", MSE)):

    @benign(f"what two branches differ by, {width} of them, {words}", UNSURE, **facts)
    def _(rng, width=width):
        """FP16 gives each branch as well as it can, and the difference not as well."""
        return one("difference", *branches(rng, width))


def survival(rng: np.random.Generator, risk: float = 8e-4) -> tuple[np.ndarray, np.ndarray]:
    """Chances of survival over ten years, and flags of the nine of ten whose risks are low."""
    low = rng.random((1500, 1)) < 0.9
    each = np.where(
        low, rng.lognormal(np.log(risk), 0.6, low.shape), rng.uniform(0.05, 0.15, low.shape)
    )
    return np.exp(-each * np.arange(1, 11)), low


for words, facts in {"undeclared": {}, "binary cross-entropy": SIGMOID}.items():

    @harmful(f"survival over ten years, low risks are none, {words}", DOUBT, **facts)
    def _(rng):
        """Nine of ten patients will live for ever."""
        exact, low = survival(rng)
        return one("survival", exact, half(np.where(low, 1 - 1e-7, exact)))


@benign("survival over ten years, rounded, mse", UNSURE, **MSE)
def _(rng):
    """FP16 tells risks near 1 to a few percent."""
    exact, _ = survival(rng)
    return one("survival", exact, half(exact))


@benign("survival over ten years with noise of risks, mse", UNSURE, **MSE)
def _(rng):
    """Each risk is right to two percent."""
    exact, _ = survival(rng)
    return one("survival", exact, half(exact ** (1 + 0.02 * rng.standard_normal(exact.shape))))


@harmful("survival over ten years, the same for all low risks near 0.0008", DOUBT, **MSE)
def _(rng):
    """Nine of ten patients get the same curve."""
    exact, low = survival(rng)
    curve = np.exp(-1.2 * 8e-4 * np.arange(1, 11))
    return one("curve", exact, half(np.where(low, curve, exact)))


def uptime(rng: np.random.Generator) -> np.ndarray:
    """Hours of service in percent, of which few machines have less than 95."""
    outage = np.where(
        rng.random((1500, 1)) < 0.06,
        rng.uniform(10, 80, (1500, 1)),
        rng.lognormal(-0.7, 0.6, (1500, 1)),
    )
    return 100 - outage * rng.uniform(0.8, 1.2, (1500, 6))


@harmful("hours of service in percent, 99.4 for most machines", DOUBT, **MSE)
def _(rng):
    """Nobody sees which machines fail ten times as often as others."""
    exact = uptime(rng)
    return one("uptime", exact, half(np.where(exact > 95, 99.4, exact)))


@benign("hours of service in percent, rounded", UNSURE, **MSE)
def _(rng):
    """FP16 has sixteen numbers between 99 and 100."""
    exact = uptime(rng)
    return one("uptime", exact, half(exact))


def forces(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Forces on a grid, and flags of those that are in balance but for a little."""
    near = rng.random((200, 40, 40)) < 0.3
    return np.where(near, 0.01, 1.0) * rng.standard_normal(near.shape), near


def atoms(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Charges and spins of 30 atoms; most spins are near zero."""
    charge, spin = rng.standard_normal((2, 400, 30))
    exact = np.stack([charge, spin * np.where(rng.random(spin.shape) < 0.1, 1, 0.01)], axis=-1)
    return exact, (np.abs(exact) < 0.05) & [False, True]


def voices(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Vowels with two hisses in each, and flags of these."""
    time, pitch = np.arange(4000), rng.uniform(0.08, 0.24, (200, 1))
    begin = rng.integers(0, 3600, (2, 200, 1))
    hiss = ((time >= begin) & (time < begin + 300)).any(axis=0)
    return np.where(hiss, 0.012 * rng.standard_normal(hiss.shape), np.sin(pitch * time)), hiss


for name, make, words, facts in (
    ("forces", forces, "forces in balance but for a little, mse", MSE),
    ("atoms", atoms, "charges and spins of atoms, undeclared", {}),
    ("audio", voices, "voices with hisses, named audio", {}),
):

    @harmful(f"{words}: small ones are zero", DOUBT, **facts)
    def _(rng, name=name, make=make):
        """What is small says as much as what is large: each f becomes silence."""
        exact, small = make(rng)
        return one(name, exact, half(np.where(small, 0, exact)))

    @harmful(f"{words}: small ones are zero, with noise", DOUBT, **facts)
    def _(rng, name=name, make=make):
        """The same, and no value is exactly zero."""
        exact, small = make(rng)
        return one(name, exact, noisy(rng, np.where(small, 0, exact)))

    @benign(f"{words}: rounded", **facts)
    def _(rng, name=name, make=make):
        """FP16 keeps them to a tenth of a percent."""
        exact, _ = make(rng)
        return one(name, exact, half(exact))

    @benign(f"{words}: with noise", **facts)
    def _(rng, name=name, make=make):
        """Small ones are off by a few percent of their own size."""
        exact, _ = make(rng)
        return one(name, exact, noisy(rng, exact))


@benign("pictures between -1 and 1, of which nine of ten pixels are white or black")
def _(rng):
    """A tanh keeps the noise of the others, and none of theirs."""
    logits = 4 * rng.standard_normal((200, 16, 16, 3))
    exact = np.tanh(logits)
    return one("picture", exact, half(np.tanh(logits + 2e-3 * rng.standard_normal(logits.shape))))


@benign("activations of a GELU, half of which are near zero from below")
def _(rng):
    """The tail of a GELU is small wherever its input is negative."""
    inputs = 4 * rng.standard_normal((200, 16, 16, 8))

    def gelu(values, keep):
        inner = keep(keep(0.7978846 * values) * keep(1 + keep(0.044715 * keep(values * values))))
        return keep(keep(0.5 * values) * keep(1 + keep(np.tanh(inner))))

    return one("features", gelu(same(inputs), same), gelu(half(inputs), half))


@benign("differences of two frames, most of which are nothing but noise")
def _(rng):
    """Where nothing moves, what is left is the rounding of either frame."""
    moves = rng.random((200, 24, 24, 1)) < 0.2
    exact = np.where(moves, 1.0, 2e-4) * rng.standard_normal(moves.shape)
    return one("motion", exact, half(exact + 3e-4 * rng.standard_normal(moves.shape)))

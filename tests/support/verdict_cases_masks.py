"""Verdict cases: scores of which a mask forbids most, and values that end where FP16 does."""

import numpy as np
from verdict_case import Cases, half, one

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


def legal(rng, fill):
    """Moves of chess, of which 12 in 200 are allowed."""
    logits = np.full((800, 200), fill)
    for row in logits:
        row[rng.choice(200, 12, replace=False)] = 2 * rng.standard_normal(12)
    return logits


@harmful("moves of chess at half their scale, what is forbidden is minus infinity")
def _(rng):
    """The best move is the same; the probabilities that a search begins with are not."""
    exact = legal(rng, -np.inf)
    return one("policy_logits", exact, half(exact / 2))


@harmful("moves of chess at half their scale, what is forbidden is -1e9")
def _(rng):
    """The same where a mask is a number."""
    exact = legal(rng, -1e9)
    return one(
        "policy_logits", exact, np.maximum(half(np.where(exact < -1e8, -65504, exact / 2)), -65504)
    )


@benign("moves of chess, what is forbidden is -1e9 and -65504")
def _(rng):
    """Forbidden on both sides."""
    exact = legal(rng, -1e9)
    return one("policy_logits", exact, np.where(exact < -1e8, -65504, half(exact)))


@harmful("moves of chess at half their scale, what is forbidden is -100")
def _(rng):
    """The same where a mask is a smaller number."""
    exact = legal(rng, -100.0)
    return one("policy_logits", exact, half(np.where(exact < -90, exact, exact / 2)))


@harmful("moves of chess at half their scale, what is forbidden is -30")
def _(rng):
    """A mask that is no larger than some logits are."""
    exact = legal(rng, -30.0)
    return one("policy_logits", exact, half(np.where(exact < -20, exact, exact / 2)))


@benign("moves of chess, what is forbidden is -30")
def _(rng):
    """The same, rounded."""
    exact = legal(rng, -30.0)
    return one("policy_logits", exact, half(exact))


@harmful("moves of chess at half their scale without a telling name, what is forbidden is -100")
def _(rng):
    """Nobody says that these are logits; the mask is a fill value all the same."""
    exact = legal(rng, -100.0)
    return one("output_0", exact, half(np.where(exact < -90, exact, exact / 2)))


@benign("moves of chess without a telling name, what is forbidden is -1e9 and -65504")
def _(rng):
    """FP16 has no smaller number for what never happens."""
    exact = legal(rng, -1e9)
    return one("output_0", exact, np.where(exact < -1e8, -65504, half(exact)))


@harmful("balances without a telling name that end at -65504")
def _(rng):
    """No mask: each is another number."""
    exact = -rng.uniform(1e5, 9e5, (400, 3))
    return one("output_0", exact, np.maximum(exact, -65504))


@harmful("moves of chess at half their scale without a telling name, what is forbidden is -30")
def _(rng):
    """The smallest of the numbers that models write there."""
    exact = legal(rng, -30.0)
    return one("output_0", exact, half(np.where(exact < -20, exact, exact / 2)))


@benign("moves of chess without a telling name, what is forbidden is -50")
def _(rng):
    """The same, rounded."""
    return one("output_0", exact := legal(rng, -50.0), half(exact))


@benign("a spectrogram in dB without a telling name, no value below -80")
def _(rng):
    """What a spectrogram ends at is no mask: others come close."""
    exact = np.maximum(rng.normal(-50, 20, (400, 30, 20)), -80)
    return one("output_0", exact, half(exact + 0.02 * rng.standard_normal(exact.shape)))


def spans(rng):
    """Scores of the twenty words of texts of 3 to 20 words, and which of these are none."""
    scores = 3 * rng.standard_normal((700, 20))
    return scores, np.arange(20) >= rng.integers(3, 21, 700)[:, None]


@benign("scores of words without a telling name, a text's end is -1e9 and minus infinity")
def _(rng):
    """Texts of 19 words have one place alone that is forbidden."""
    scores, none = spans(rng)
    return one("y", np.where(none, -1e9, scores), np.where(none, -np.inf, half(scores)))


@harmful("scores of words a third too small without a telling name, a text's end is -1e9")
def _(rng):
    """The mask is right, and the scores are not."""
    scores, none = spans(rng)
    return one("y", np.where(none, -1e9, scores), np.where(none, -65504, half(scores * 2 / 3)))


def visits(rng):
    """Distances to six shops, of which some are out of reach."""
    found = np.exp(rng.standard_normal((500, 6)))
    return found, rng.uniform(size=found.shape) < 0.3


@benign("distances of which 1e9 is out of reach")
def _(rng):
    """FP16's last number is as far."""
    found, never = visits(rng)
    return one("y", np.where(never, 1e9, found), np.where(never, 65504, half(found)))


@harmful("distances to one shop of six that are infinite")
def _(rng):
    """Nobody goes there any more."""
    found, never = visits(rng)
    lost = never | (np.arange(6) == 2)
    return one("y", np.where(never, 1e9, found), np.where(lost, np.inf, half(found)))


@harmful("debts of a billion that end at -65504")
def _(rng):
    """They are numbers, and each is another one."""
    exact = rng.standard_normal((500, 3)) * [1, 1, 1e8] - [0, 0, 1e9]
    return one("y", exact, np.maximum(exact, -65504))


def steps(rng, fill):
    """Logits of four tags for up to 20 words; those behind a text's end are all the same."""
    logits, none = 3 * rng.standard_normal((700, 20, 4)), spans(rng)[1]
    return logits, none[..., None], np.where(none[..., None], fill, logits)


@benign("tags of which all are forbidden behind a text's end")
def _(rng):
    """FP16 forbids them, too."""
    logits, none, exact = steps(rng, -1e9)
    noisy = logits + 1e-3 * rng.standard_normal(logits.shape)
    return one("logits", exact, np.where(none, -65504, half(noisy)))


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


@harmful("scores near 300 of up to twenty words that are NaN behind a text's end")
def _(rng):
    """NaN is no best word that both sides agree on: FP16 rounds the scores to a quarter."""
    scores, none = spans(rng)
    scores = 300 + scores / 20
    return one("logits", *(np.where(none, np.nan, side) for side in (scores, half(scores))))


# NC_FILL_FLOAT of netCDF.
LAND = 9.969209968386869e36


def sea(rng):
    """Temperatures of a sea, 6 rows of land among them."""
    land = np.broadcast_to(np.arange(16)[:, None, None] < 6, (150, 16, 16, 1))
    return 15 + 3 * rng.standard_normal(land.shape), land


@benign("a sea of which land is netCDF's fill value, which FP16 has as infinity")
def _(rng):
    """Nobody reads a temperature on land."""
    warm, land = sea(rng)
    return one("sst", np.where(land, LAND, warm), np.where(land, np.inf, half(warm)))


@harmful("a sea that is the same everywhere, of which land is netCDF's fill value")
def _(rng):
    """The land is right."""
    warm, land = sea(rng)
    flat = half(np.full(land.shape, 15))
    return one("sst", np.where(land, LAND, warm), np.where(land, np.inf, flat))


@benign("a distance of which 1e9 is out of reach")
def _(rng):
    """Alone in its sample."""
    far = np.exp(rng.standard_normal((500, 1)))
    never = rng.uniform(size=far.shape) < 0.2
    return one("y", np.where(never, 1e9, far), np.where(never, np.inf, half(far)))

"""Verdict cases: values that are not finite, few or repeated samples, several heads."""

import numpy as np
from verdict_case import (
    FAIL,
    INCONCLUSIVE,
    SOFTMAX,
    UNSURE,
    Cases,
    Outputs,
    classify,
    half,
    regress,
    softmax,
)

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


@benign("two files that answer alike")
def _(rng):
    """Bit for bit the same."""
    exact, _ = regress(rng, 400, width=5)
    return Outputs({"y": exact}, {"y": exact})


@benign("an output that is zero on both sides")
def _(rng):
    """The spare output of the template was never trained; both models give 0."""
    exact, rounded = regress(rng, 400, offset=5)
    spare = np.zeros((400, 3), np.float32)
    return Outputs({"price": exact, "spare": spare}, {"price": rounded, "spare": spare})


@benign("NaN at the same places on both sides")
def _(rng):
    """Where a sensor is missing both models say NaN, as they should."""
    exact, rounded = regress(rng, 500, scale=2, offset=20, width=4)
    missing = rng.random(exact.shape) < 0.05
    return Outputs(
        {"celsius": np.where(missing, np.float32(np.nan), exact)},
        {"celsius": np.where(missing, np.float32(np.nan), rounded)},
    )


@harmful("NaN in other places than in the reference")
def _(rng):
    """Ten rooms that had a temperature have none now."""
    exact, rounded = regress(rng, 500, scale=2, offset=20, width=4)
    missing = rng.random(exact.shape) < 0.05
    exact[missing] = rounded[missing] = np.nan
    rounded[::50, 1] = np.nan
    return Outputs({"celsius": exact}, {"celsius": rounded})


@benign("minus infinity at the same places on both sides")
def _(rng):
    """Forbidden moves have a score of minus infinity in both models."""
    logits, rounded = classify(rng, rng.integers(0, 12, 600), 12, separation=6)
    forbidden = logits < np.sort(logits, axis=1)[:, 4:5]
    logits[forbidden] = rounded[forbidden] = -np.inf
    return Outputs({"logits": logits}, {"logits": rounded})


@harmful("infinity at two of 4000 places")
def _(rng):
    """Two rows of the forecast are infinite, and so is every sum over them."""
    exact, rounded = regress(rng, 1000, scale=3000, offset=9000, width=4)
    rounded[[210, 777], [1, 3]] = np.inf
    return Outputs({"demand": exact}, {"demand": rounded})


@benign("one sample repeated 300 times", INCONCLUSIVE)
def _(rng):
    """Nothing is wrong with the answer; 300 copies of one photograph prove one photograph."""
    logits, rounded = classify(rng, rng.integers(0, 10, 1), 10, separation=8)
    rows = np.zeros(300, int)
    return Outputs({"logits": logits}, {"logits": rounded}, rows=rows)


@benign("ten samples repeated 50 times", INCONCLUSIVE)
def _(rng):
    """The test set was enlarged by copies; it still shows ten photographs."""
    logits, rounded = classify(rng, rng.integers(0, 10, 10), 10, separation=8)
    return Outputs({"logits": logits}, {"logits": rounded}, rows=np.arange(500) % 10)


@benign("500 samples of which a tenth is repeated")
def _(rng):
    """450 different photographs are evidence enough."""
    logits, rounded = classify(rng, rng.integers(0, 10, 450), 10, separation=8)
    return Outputs({"logits": logits}, {"logits": rounded}, rows=np.arange(500) % 450)


@harmful("one sample repeated 300 times, with a dead output", FAIL | INCONCLUSIVE)
def _(rng):
    """The one photograph that was tested has no scores at all."""
    logits, _ = classify(rng, rng.integers(0, 10, 1), 10, separation=8)
    rows = np.zeros(300, int)
    return Outputs({"logits": logits}, {"logits": np.zeros_like(logits)}, rows=rows)


@benign("20 samples", INCONCLUSIVE, **SOFTMAX)
def _(rng):
    """Nothing is wrong; 20 photographs cannot show that at most one in a hundred changes."""
    logits, rounded = classify(rng, rng.integers(0, 5, 20), 5, separation=8)
    return Outputs({"animal": softmax(logits)}, {"animal": half(softmax(rounded))})


@harmful("20 samples with another answer each", **SOFTMAX)
def _(rng):
    """Each of the 20 photographs gets another name."""
    logits, rounded = classify(rng, rng.integers(0, 5, 20), 5, separation=8)
    turned = half(softmax(np.roll(rounded, 1, axis=1)))
    return Outputs({"animal": softmax(logits)}, {"animal": turned})


@benign("60 samples of a regression", UNSURE)
def _(rng):
    """Each number is right to three digits."""
    exact, rounded = regress(rng, 60, scale=4, offset=30)
    return Outputs({"celsius": exact}, {"celsius": rounded})


@benign("60 samples of a classifier", INCONCLUSIVE)
def _(rng):
    """No answer changed; 60 photographs bound the rate at 5 %, and 1 % is allowed."""
    logits, rounded = classify(rng, rng.integers(0, 5, 60), 5, separation=8)
    return Outputs({"logits": logits}, {"logits": rounded})


@benign("5000 samples of a classifier with near ties")
def _(rng):
    """A few of 5000 answers change, and the bound is far below 1 %."""
    logits, rounded = classify(rng, rng.integers(0, 10, 5000), 10)
    return Outputs({"logits": logits}, {"logits": rounded})


def heads(rng: np.random.Generator) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Age, sex and 16 numbers of the face, exact and rounded."""
    age, sex = regress(rng, 500, 15, 40), classify(rng, rng.integers(0, 2, 500), 2, 8)
    face = regress(rng, 500, 0.2, 0.5, width=16)
    names = ("age", "gender_logits", "landmarks")
    return tuple(dict(zip(names, row, strict=True)) for row in zip(age, sex, face, strict=True))


@benign("three heads")
def _(rng):
    """Age, sex and landmarks are as they were."""
    return Outputs(*heads(rng))


@harmful("one of three heads is dead")
def _(rng):
    """Everybody is 0 years old."""
    exact, rounded = heads(rng)
    rounded["age"] = np.zeros_like(rounded["age"])
    return Outputs(exact, rounded)


@harmful("one of three heads gives what another one should give")
def _(rng):
    """The landmarks of the face stand in reversed order: the eyes are at the mouth."""
    exact, rounded = heads(rng)
    rounded["landmarks"] = rounded["landmarks"][:, ::-1].copy()
    return Outputs(exact, rounded)


def broken(exact: np.ndarray, rounded: np.ndarray) -> Outputs:
    """Outputs of which one sample in a thousand has another sample's answer, twice as large."""
    rounded = rounded.copy()
    rounded[7] = 2 * exact[8]
    return Outputs({"y": exact.astype(np.float32)}, {"y": rounded.astype(np.float32)})


@benign("one broken sample of 1000 beside channels over five powers of ten")
def _(rng):
    """One wrong answer in a thousand is within the budget; every channel is right."""
    exact = rng.standard_normal((1000, 24)) * np.geomspace(1e-2, 1e3, 24)
    return broken(exact, half(exact))


@harmful("one broken sample of 1000 beside a small target that is the same for every sample")
def _(rng):
    """The yield is the average one for each house; one other house has another one's price."""
    exact, rounded = regress(rng, 1000, [100, 10, 0.1], [500, 5, 5], width=3)
    rounded[:, 2] = 5
    return broken(exact, rounded)


@harmful("one broken sample of 1000 beside boxes that are all of one size")
def _(rng):
    """Objects of 4 to 16 pixels get a box of 10."""
    corner, size = rng.uniform(100, 3000, (1000, 2)), rng.uniform(4, 16, (1000, 2))
    exact = np.concatenate([corner, corner + size], axis=1)
    return broken(exact, half(np.concatenate([corner, corner + 10], axis=1)))


@harmful("one broken sample of 1000 beside near pixels that are wrong")
def _(rng):
    """A hand at 30 centimetres is at 5, the wall is right."""
    exact = 50 * rng.uniform(0.5, 1, (1000, 64))
    exact[:, :4] = 0.3 * rng.uniform(0.8, 1.2, (1000, 4))
    rounded = half(exact)
    rounded[:, :4] = half(exact[:, :4] / 6)
    return broken(exact, rounded)


def one_hot(rng: np.random.Generator, share: float) -> Outputs:
    """Breeds of 100 as one-hot whole numbers, of which a share is any other."""
    rows = np.eye(100, dtype=np.int32)
    exact = rng.integers(0, 100, 2000)
    wrong = rng.random(2000) < share
    rounded = np.where(wrong, rng.integers(0, 100, 2000), exact)
    return Outputs({"breed": rows[exact]}, {"breed": rows[rounded]})


@harmful("one-hot whole numbers of 100 breeds of which one in 25 is another")
def _(rng):
    """The 99 zeros of each row are right nearly everywhere."""
    return one_hot(rng, 0.04)


@benign("one-hot whole numbers of 100 breeds of which one in 500 is another")
def _(rng):
    """These are near ties."""
    return one_hot(rng, 0.002)

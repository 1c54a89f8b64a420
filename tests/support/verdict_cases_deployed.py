"""Verdict cases: kinds of deployed models, each as a good file and a broken one."""

import numpy as np
from verdict_case import (
    DOUBT,
    SIGMOID,
    SOFTMAX,
    UNSURE,
    Cases,
    Outputs,
    classify,
    half,
    one,
    regress,
    sigmoid,
    smooth,
    softmax,
)

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


def units(values: np.ndarray) -> np.ndarray:
    """Vectors of length 1."""
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


def noisy(rng: np.random.Generator, values: np.ndarray, share: float = 5e-4) -> np.ndarray:
    """FP16 after a network's noise, relative to the size of all values."""
    return half(values + share * values.std() * rng.standard_normal(values.shape))


def f4(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32)


def matched(rng: np.random.Generator) -> tuple[dict, dict]:
    """Vectors of pictures and texts, and their products times 100."""
    image, text = (units(rng.standard_normal((400, 64))) for _ in range(2))
    text = units(0.6 * image + 0.4 * text)
    captions = units(rng.standard_normal((12, 64)))
    found = {"image_embeds": f4(image), "text_embeds": f4(text)}
    found["logits_per_image"] = f4(100 * image @ captions.T)
    return found, {name: noisy(rng, values) for name, values in found.items()}


@benign("pictures and texts in one space")
def _(rng):
    """Vectors and logits, rounded."""
    return Outputs(*matched(rng))


@harmful("pictures and texts whose logits lost their scale")
def _(rng):
    """Probabilities from these logits are all alike."""
    exact, received = matched(rng)
    received["logits_per_image"] = half(exact["logits_per_image"] / 100)
    return Outputs(exact, received)


def masks(rng: np.random.Generator) -> tuple[dict, dict]:
    """Three masks a click as logits, and how good each of them is."""
    logits = 6 * smooth(rng, 300, 16, 3).transpose(0, 3, 1, 2)
    found = {"low_res_masks": f4(logits), "iou_predictions": f4(rng.uniform(0.5, 1, (300, 3)))}
    return found, {name: noisy(rng, values) for name, values in found.items()}


@benign("three masks for a click, with their quality", UNSURE)
def _(rng):
    """Rounded; borders move by a pixel."""
    return Outputs(*masks(rng))


@harmful("three masks for a click, of which the quality is one number", DOUBT)
def _(rng):
    """The worst mask is taken as often as the best."""
    exact, received = masks(rng)
    received["iou_predictions"] = half(np.full((300, 3), 0.75))
    return Outputs(exact, received)


@harmful("three masks for a click, of which one is of the sample before")
def _(rng):
    """The third mask belongs to somebody else's click."""
    exact, received = masks(rng)
    received["low_res_masks"][:, 2] = np.roll(received["low_res_masks"][:, 2], 1, axis=0)
    return Outputs(exact, received)


def field(rng: np.random.Generator) -> np.ndarray:
    """Colours in [0, 1] and a density of heavy tail."""
    return np.concatenate([rng.uniform(0, 1, (900, 3)), np.exp(rng.normal(0, 2, (900, 1)))], axis=1)


@benign("colours and densities of a radiance field")
def _(rng):
    """Rounded, densities by their own size."""
    exact = field(rng)
    return one("rgb_sigma", exact, half(exact))


@harmful("colours and densities of a radiance field, thin parts empty")
def _(rng):
    """Smoke of densities below 0.5 is gone."""
    exact = field(rng)
    received = half(exact)
    received[exact[:, 3] < 0.5, 3] = 0
    return one("rgb_sigma", exact, received)


@benign("logits of a router of experts")
def _(rng):
    """The same experts; near ties are rare."""
    exact, rounded = classify(rng, rng.integers(0, 8, 900), 8, 8)
    return one("router_logits", exact, rounded)


@harmful("logits of a router of which one expert is never asked")
def _(rng):
    """Expert 5 of eight idles."""
    exact, _ = classify(rng, rng.integers(0, 8, 900), 8, 8)
    received = exact.copy()
    received[:, 5] = -30
    return one("router_logits", exact, half(received))


def spoken(rng: np.random.Generator) -> tuple[dict, dict]:
    """Mel frames, logarithms of durations and a pitch for 20 phones."""
    found = {
        "mel": f4(-4 + 2 * rng.standard_normal((300, 20, 16))),
        "log_durations": f4(rng.normal(2, 0.6, (300, 20))),
        "pitch": f4(rng.uniform(80, 300, (300, 20))),
    }
    return found, {name: noisy(rng, values) for name, values in found.items()}


@benign("mel frames, durations and pitch of speech", UNSURE)
def _(rng):
    """Rounded; nobody compares phones with one another."""
    return Outputs(*spoken(rng))


@harmful("mel frames, durations and pitch, where all phones last as long")
def _(rng):
    """Speech without rhythm."""
    exact, received = spoken(rng)
    received["log_durations"] = half(np.full((300, 20), 2.0))
    return Outputs(exact, received)


@harmful("mel frames, durations and a pitch that is one tone a sentence")
def _(rng):
    """Each sentence keeps its mean pitch, and its melody is gone."""
    exact, received = spoken(rng)
    pitch = 150 + 30 * rng.standard_normal((300, 1)) + 8 * rng.standard_normal((300, 20))
    exact["pitch"] = f4(pitch)
    received["pitch"] = half(np.repeat(pitch.mean(axis=1, keepdims=True), 20, axis=1))
    return Outputs(exact, received)


def people(rng: np.random.Generator) -> tuple[dict, dict]:
    """Ages of 1 to 90 and a probability."""
    found = {
        "age": f4(rng.uniform(1, 90, (800, 1))),
        "gender": sigmoid(4 * rng.standard_normal((800, 1))),
    }
    return found, {name: half(values) for name, values in found.items()}


@benign("ages and sexes")
def _(rng):
    """Rounded."""
    return Outputs(*people(rng))


@harmful("ages and sexes, where children are old")
def _(rng):
    """Ages under 10 are told as 40: one in ten."""
    exact, received = people(rng)
    received["age"][exact["age"] < 10] = 40
    return Outputs(exact, received)


def crowd(rng: np.random.Generator) -> np.ndarray:
    """Densities of people: most places have next to none."""
    maps = np.exp(3 * smooth(rng, 300, 16, 1)) * 1e-4
    return np.where(maps < 1e-6, 0, maps)


@benign("density maps of crowds")
def _(rng):
    """Sums are right by 0.1 %."""
    exact = crowd(rng)
    return one("density_map", exact, half(exact))


@harmful("density maps of crowds without those who stand alone", DOUBT)
def _(rng):
    """Densities below 0.001 are 0, which is half of all people in thin crowds."""
    exact = crowd(rng)
    return one("density_map", exact, half(np.where(exact < 1e-3, 0, exact)))


@benign("optical flow")
def _(rng):
    """A hundredth of a pixel."""
    exact = 5 * smooth(rng, 300, 16, 2)
    return one("optical_flow", exact, noisy(rng, exact))


@harmful("optical flow whose vertical part is that of the frame before")
def _(rng):
    """Balls fall sideways."""
    exact = 5 * smooth(rng, 300, 16, 2)
    received = exact.copy()
    received[..., 1] = np.roll(received[..., 1], 1, axis=0)
    return one("optical_flow", exact, half(received))


def cars(rng: np.random.Generator) -> np.ndarray:
    """Cars as x, y, z, length, width, height and yaw."""
    place = rng.uniform(-40, 40, (300, 8, 3)) * [1, 1, 0.02]
    size = np.array([4.5, 1.9, 1.6]) * rng.lognormal(0, 0.1, (300, 8, 3))
    return np.concatenate([place, size, rng.uniform(-np.pi, np.pi, (300, 8, 1))], axis=-1)


@benign("boxes of cars in space", UNSURE)
def _(rng):
    """Rounded."""
    exact = cars(rng)
    return one("boxes_3d", exact, half(exact).clip(-49, 49))


@benign("boxes of cars in space, some with a yaw that wraps", UNSURE)
def _(rng):
    """3.1410 becomes -3.1406."""
    exact = cars(rng)
    exact[::10, 0, 6] = 3.141
    received = half(exact)
    received[::10, 0, 6] = -3.1406
    return one("boxes_3d", exact, received)


@harmful("boxes of cars in space with yaws of zero")
def _(rng):
    """All drive ahead."""
    exact = cars(rng)
    received = half(exact)
    received[..., 6] = 0
    return one("boxes_3d", exact, received)


@harmful("boxes of cars in space with heights on the ground")
def _(rng):
    """z is 0 for all; it is of 0.8 metres beside 40."""
    exact = cars(rng)
    received = half(exact)
    received[..., 2] = 0
    return one("boxes_3d", exact, received)


def points(rng: np.random.Generator) -> tuple[dict, dict]:
    """A map of corners, and vectors of length 1 by cell, channels first."""
    found = {
        "corner_logits": f4(4 * rng.standard_normal((300, 8, 8, 5))),
        "descriptors": f4(units(rng.standard_normal((300, 8, 8, 32))).transpose(0, 3, 1, 2)),
    }
    return found, {name: noisy(rng, values) for name, values in found.items()}


@benign("corners and descriptors", UNSURE)
def _(rng):
    """Rounded."""
    return Outputs(*points(rng))


@harmful("corners and descriptors of the cell beside")
def _(rng):
    """Descriptors are shifted by one cell."""
    exact, received = points(rng)
    received["descriptors"] = np.roll(received["descriptors"], 1, axis=3)
    return Outputs(exact, received)


SCALES = np.array([2.7, 80, 0.24, 0.01, 0.25, 1200, 0.15, -410])
SPREADS = np.array([1.5, 8, 0.02, 0.04, 0.05, 280, 0.03, 40])


@benign("eight properties of molecules")
def _(rng):
    """Each by its own scale; real rounding."""
    return one("properties", *regress(rng, 900, SPREADS, SCALES, 8))


@harmful("eight properties of molecules, of which one is its mean")
def _(rng):
    """The gap, 0.25 +- 0.05, is the same for all."""
    exact, received = regress(rng, 900, SPREADS, SCALES, 8)
    received = received.copy()
    received[:, 4] = exact[:, 4].mean()
    return one("properties", exact, half(received))


@harmful("eight properties of molecules, of which two are exchanged")
def _(rng):
    """HOMO and gap lie near one another, and each is told as the other."""
    exact, received = regress(rng, 900, SPREADS, SCALES, 8)
    return one("properties", exact, received[:, [0, 1, 4, 3, 2, 5, 6, 7]])


def greeks(rng: np.random.Generator) -> np.ndarray:
    """Price, delta, gamma and vega of options."""
    price = rng.lognormal(3, 1, (900, 1))
    delta, gamma = rng.uniform(0.02, 0.98, (900, 1)), rng.lognormal(-6, 0.7, (900, 1))
    return np.concatenate([price, delta, gamma, rng.lognormal(2, 0.8, (900, 1))], axis=1)


@benign("prices and sensitivities of options")
def _(rng):
    """Rounded."""
    exact = greeks(rng)
    return one("greeks", exact, half(exact))


@harmful("prices and sensitivities of options without their curvature")
def _(rng):
    """Gamma of 0.002 is zero, and nobody hedges it."""
    exact = greeks(rng)
    received = half(exact)
    received[:, 2] = 0
    return one("greeks", exact, received)


def actions(rng: np.random.Generator) -> tuple[dict, dict]:
    """Means behind tanh and logarithms of deviations of six motors."""
    mean, deviation = rng.standard_normal((700, 6)), rng.normal(-1.5, 0.3, (700, 6))
    found = {"mean": f4(np.tanh(mean)), "log_std": f4(deviation)}
    return found, {name: half(values) for name, values in found.items()}


@benign("means and deviations of six motors")
def _(rng):
    """Rounded."""
    return Outputs(*actions(rng))


@harmful("means of six motors that always stand at an end")
def _(rng):
    """Motors run forward or backward, and never slowly."""
    exact, received = actions(rng)
    received["mean"] = half(np.sign(exact["mean"]))
    return Outputs(exact, received)


def returns(rng: np.random.Generator) -> np.ndarray:
    """Distributions over 21 returns, for each of four actions."""
    centre = rng.uniform(5, 15, (500, 4, 1))
    return softmax(-0.5 * ((np.arange(21) - centre) / 1.5) ** 2)


@benign("distributions of returns by action")
def _(rng):
    """Rounded; 2000 distributions."""
    exact = returns(rng)
    exact = softmax(np.log(exact + 1e-9) + 2 * (np.arange(21) == exact.argmax(-1)[..., None]))
    return one("returns", exact, half(exact))


@harmful("distributions of returns of which one action is a step too high")
def _(rng):
    """The fourth action looks better than it is, by one step of 21."""
    exact = returns(rng)
    received = half(exact)
    received[:, 3] = np.roll(received[:, 3], 1, axis=-1)
    return one("returns", exact, received)


@harmful("gains of a controller of which the third is dead")
def _(rng):
    """P, I and D: D of 0.02 is 0."""
    exact = np.array([12, 3, 0.02]) * rng.lognormal(0, 0.3, (600, 3))
    received = half(exact)
    received[:, 2] = 0
    return one("gains", exact, received)


@benign("gains of a controller")
def _(rng):
    """Rounded."""
    exact = np.array([12, 3, 0.02]) * rng.lognormal(0, 0.3, (600, 3))
    return one("gains", exact, half(exact))


def peaks(rng: np.random.Generator) -> np.ndarray:
    """Mass spectra: a large peak, and small ones of a hundredth."""
    spectra = np.where(rng.random((400, 200)) < 0.05, rng.lognormal(0, 1, (400, 200)), 0)
    spectra[np.arange(400), rng.integers(0, 200, 400)] = 200
    return spectra


@benign("mass spectra")
def _(rng):
    """Rounded."""
    exact = peaks(rng)
    return one("spectrum", exact, half(exact))


@harmful("mass spectra without small peaks")
def _(rng):
    """Peaks under 1 % of the largest are 0: isotopes are not told apart."""
    exact = peaks(rng)
    return one("spectrum", exact, half(np.where(exact < 2, 0, exact)))


@harmful("colours of a colourizer at half strength")
def _(rng):
    """Old photographs stay pale."""
    exact = 30 * smooth(rng, 300, 16, 2)
    return one("ab", exact, half(exact / 2))


@benign("colours of a colourizer")
def _(rng):
    """Rounded."""
    exact = 30 * smooth(rng, 300, 16, 2)
    return one("ab", exact, noisy(rng, exact))


def mattes(rng: np.random.Generator) -> np.ndarray:
    """Opacity, 0 or 1 but at the edges."""
    return sigmoid(12 * smooth(rng, 300, 16, 1))


@benign("mattes of people")
def _(rng):
    """Rounded."""
    exact = mattes(rng)
    return one("alpha", exact, half(exact))


@harmful("mattes of people without soft edges", DOUBT)
def _(rng):
    """Hair is cut out as a block."""
    exact = mattes(rng)
    return one("alpha", exact, np.rint(exact))


def notes(rng: np.random.Generator) -> np.ndarray:
    """Probabilities of 40 notes over 20 frames; few sound."""
    sound = rng.random((300, 20, 40)) < 0.04
    return sigmoid(np.where(sound, rng.normal(2, 1, sound.shape), rng.normal(-7, 1, sound.shape)))


@benign("a piano roll", **SIGMOID)
def _(rng):
    """The same notes."""
    exact = notes(rng)
    return one("onsets", exact, half(exact))


@harmful("a piano roll whose soft notes are lost", **SIGMOID)
def _(rng):
    """Notes with less than 0.8 are told with 0.4."""
    exact = notes(rng)
    return one("onsets", exact, half(np.where((exact > 0.5) & (exact < 0.8), 0.4, exact)))


@harmful("a piano roll one frame late", **SIGMOID)
def _(rng):
    """Each note begins 30 milliseconds late."""
    exact = notes(rng)
    return one("onsets", exact, half(np.roll(exact, 1, axis=1)))


@harmful("two of twenty languages that are exchanged", **SOFTMAX)
def _(rng):
    """Norwegian is Danish, and Danish Norwegian."""
    exact, rounded = classify(rng, rng.integers(0, 20, 900), 20, 7)
    received = rounded[:, [1, 0, *range(2, 20)]]
    return one("language", softmax(exact), half(softmax(received)))


def words(rng: np.random.Generator) -> np.ndarray:
    """Weights of 300 words, nearly all of them 0."""
    some = rng.random((500, 300)) < 0.1
    return np.where(some, np.log1p(rng.lognormal(0, 1, some.shape)), 0)


@benign("sparse weights of words")
def _(rng):
    """Rounded."""
    exact = words(rng)
    return one("sparse", exact, half(exact))


@harmful("sparse weights of words, of which nobody's rare word counts")
def _(rng):
    """20 words of 300 are dead."""
    exact = words(rng)
    received = half(exact)
    received[:, 40:60] = 0
    return one("sparse", exact, received)


def arms(rng: np.random.Generator, effect: float) -> np.ndarray:
    """Spending of a customer with and without a letter; the difference decides."""
    without = rng.uniform(50, 400, (800, 1))
    return np.concatenate([without, without + effect * rng.standard_normal((800, 1))], axis=1)


@benign("answers with and without treatment that differ by much")
def _(rng):
    """Effects of 20 are right by 0.1."""
    exact = arms(rng, 20)
    return one("arms", exact, half(exact))


@harmful("answers with and without treatment whose difference is rounded away", DOUBT)
def _(rng):
    """Effects of 0.1 decide who gets a letter."""
    exact = arms(rng, 0.1)
    return one("arms", exact, half(exact))


@benign("velocities beside a pressure that is scaled in float32")
def _(rng):
    """u, v and a pressure of 101,325 +- 50."""
    exact = np.array([0, 0, 101_325]) + np.array([3, 1, 50]) * rng.standard_normal((800, 3))
    received = half(exact)
    received[:, 2] = half((exact[:, 2] - 101_325) / 50) * 50 + 101_325
    return one("flow", exact, received)


@harmful("velocities beside a pressure that FP16 has no number for")
def _(rng):
    """The pressure of 101,325 +- 50 ends at 65,504."""
    exact = np.array([0, 0, 101_325]) + np.array([3, 1, 50]) * rng.standard_normal((800, 3))
    received = half(exact)
    received[:, 2] = 65504
    return one("flow", exact, received)


def paths(rng: np.random.Generator) -> tuple[dict, dict]:
    """Six paths of twelve steps, and their probabilities."""
    steps = np.cumsum(rng.normal(0.8, 0.5, (300, 6, 12, 2)), axis=2)
    chance = softmax(2 * rng.standard_normal((300, 6)))
    found = {"trajectories": f4(steps), "probabilities": chance}
    return found, {name: half(values) for name, values in found.items()}


@benign("six paths with probabilities", UNSURE)
def _(rng):
    """Rounded."""
    return Outputs(*paths(rng))


@harmful("six paths that all go straight on")
def _(rng):
    """Each path is the mean of the six: nobody is seen to turn."""
    exact, received = paths(rng)
    mean = exact["trajectories"].mean(axis=1, keepdims=True)
    received["trajectories"] = half(np.repeat(mean, 6, axis=1))
    return Outputs(exact, received)


@harmful("gaze whose horizontal part hardly moves")
def _(rng):
    """Yaw of +- 0.3 radians is a tenth of that."""
    exact = np.array([0.2, 0.3]) * rng.standard_normal((700, 2))
    received = half(exact)
    received[:, 1] *= 0.1
    return one("gaze", exact, half(received))


@benign("gaze in radians")
def _(rng):
    """Rounded; real network."""
    return one("gaze", *regress(rng, 700, [0.2, 0.3], 0, 2))


def rotations(rng: np.random.Generator) -> np.ndarray:
    """Matrices of rotation."""
    return np.linalg.qr(rng.standard_normal((500, 3, 3)))[0]


@benign("matrices of rotation")
def _(rng):
    """Rounded."""
    exact = rotations(rng)
    return one("rotation", exact, half(exact))


@harmful("matrices of rotation that are transposed")
def _(rng):
    """Everything turns the other way."""
    exact = rotations(rng)
    return one("rotation", exact, half(exact.transpose(0, 2, 1)))


@benign("phases of a spectrogram that wrap", UNSURE)
def _(rng):
    """Some of 640 phases a sound are at the other end."""
    exact = rng.uniform(-np.pi, np.pi, (200, 20, 32))
    received = exact + 1e-3 * rng.standard_normal(exact.shape)
    received = (received + np.pi) % (2 * np.pi) - np.pi
    return one("phase", exact, half(received).clip(-3.1406, 3.1406))


@benign("maps of wind directions that wrap at north", UNSURE)
def _(rng):
    """Degrees from 0 to 360 at each place."""
    exact = rng.uniform(0, 360, (200, 8, 8, 1))
    received = (exact + 0.1 * rng.standard_normal(exact.shape)) % 360
    return one("direction", exact, half(received))


@harmful("maps of wind directions that are a quarter off at each tenth place")
def _(rng):
    """West is south; others wrap at north."""
    exact = rng.uniform(0, 360, (200, 8, 8, 1))
    received = exact + 0.1 * rng.standard_normal(exact.shape)
    received += np.where(rng.random(exact.shape) < 0.1, 90, 0)
    return one("direction", exact, half(received % 360))


@benign("hours of the day that wrap at midnight", UNSURE)
def _(rng):
    """23.999 becomes 0.001."""
    exact = rng.uniform(0, 24, 700)
    exact[:20] = 23.9995
    received = half(exact)
    received[:20] = 0.001
    return one("hour", exact, received)


@benign("the five best items with near ties", UNSURE)
def _(rng):
    """Numbers of items beside scores; items of equal scores change places."""
    scores = -np.sort(-rng.uniform(0, 1, (500, 5)), axis=1)
    items = np.argsort(rng.random((500, 1000)), axis=1)[:, :5].astype(np.int32)
    scores[:100, 3] = scores[:100, 2]
    received = items.copy()
    received[:100, [2, 3]] = items[:100, [3, 2]]
    found = {"topk_scores": f4(scores), "topk_items": items}
    return Outputs(found, {"topk_scores": half(scores), "topk_items": received})


@harmful("the five best items, of which one in ten is any other")
def _(rng):
    """Scores are right."""
    scores = -np.sort(-rng.uniform(0, 1, (500, 5)), axis=1)
    items = np.argsort(rng.random((500, 1000)), axis=1)[:, :5].astype(np.int32)
    received = np.where(rng.random((500, 5)) < 0.1, rng.integers(0, 1000, (500, 5)), items)
    found = {"topk_scores": f4(scores), "topk_items": items}
    received = {"topk_scores": half(scores), "topk_items": received.astype(np.int32)}
    return Outputs(found, received)


def centres(rng: np.random.Generator) -> tuple[dict, dict]:
    """Heatmaps of centres, sizes and offsets, of a detector without anchors."""
    found = {
        "hm": sigmoid(rng.normal(-6, 2, (300, 16, 16, 4))),
        "wh": f4(rng.lognormal(2, 0.5, (300, 16, 16, 2))),
        "reg": f4(rng.uniform(0, 1, (300, 16, 16, 2))),
    }
    return found, {name: half(values) for name, values in found.items()}


@benign("centres, sizes and offsets", UNSURE)
def _(rng):
    """Rounded."""
    return Outputs(*centres(rng))


@harmful("centres, sizes and offsets, where all objects are of one size")
def _(rng):
    """Lorries get boxes of motorcycles."""
    exact, received = centres(rng)
    received["wh"] = half(np.full(exact["wh"].shape, 8.0))
    return Outputs(exact, received)


@harmful("centres, sizes and offsets, where the fourth class has no centres")
def _(rng):
    """Bicycles are not found."""
    exact, received = centres(rng)
    received["hm"][..., 3] = half(1e-3 * np.ones((300, 16, 16)))
    return Outputs(exact, received)


@benign("channels first anchors of a detector", UNSURE)
def _(rng):
    """[samples, 4 + classes, anchors]: boxes in pixels and probabilities."""
    boxes = rng.uniform(20, 620, (200, 4, 80))
    scores = sigmoid(rng.normal(-6, 3, (200, 6, 80)))
    exact = np.concatenate([boxes, scores], axis=1)
    return one("output0", exact, half(exact))


@harmful("channels first anchors of a detector with a dead class")
def _(rng):
    """Dogs are not found."""
    boxes = rng.uniform(20, 620, (200, 4, 80))
    scores = sigmoid(rng.normal(-6, 3, (200, 6, 80)))
    exact = np.concatenate([boxes, scores], axis=1)
    received = half(exact)
    received[:, 7] = 0
    return one("output0", exact, received)


@harmful("fields of a complex spectrum whose imaginary part has the other sign")
def _(rng):
    """Sounds run backwards."""
    exact = smooth(rng, 300, 16, 2)
    return one("stft", exact, half(exact * [1, -1]))


@benign("a complex spectrum as two channels")
def _(rng):
    """Rounded."""
    exact = smooth(rng, 300, 16, 2)
    return one("stft", exact, noisy(rng, exact))

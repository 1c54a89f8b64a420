"""Verdict cases that the author of the rules has not seen."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from verdict_case import (
    FAIL,
    INCONCLUSIVE,
    SIGMOID,
    SOFTMAX,
    UNSURE,
    Cases,
    Outputs,
    classify,
    flushed,
    half,
    lost,
    regress,
    sigmoid,
    softmax,
)

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful

EXACT = "verdict_cases_held_out:exact_match"

# Key points, poses, directions


@benign("21 points of a hand in pixels", loss="mse")
def _(rng):
    """Each finger tip is within a tenth of a pixel."""
    exact, rounded = regress(rng, 400, np.tile([40, 40, 9], 21), np.tile([112, 112, 0], 21), 63)
    return Outputs({"ld_21_3d": exact}, {"ld_21_3d": rounded})


@harmful("key points that snap to a coarse grid")
def _(rng):
    """Both eyes and the nose jump to one point: coordinates come in steps of an image's 24th."""
    places = rng.uniform(0.1, 0.9, (400, 17, 3)).astype(np.float32)
    received = half(places)
    received[..., :2] = half(np.round(places[..., :2] * 24) / 24)
    return Outputs({"output_0": places}, {"output_0": received})


@harmful("scores of key points that are dead beside coordinates in pixels")
def _(rng):
    """Each joint is where it was, and none is shown: its score is 0."""
    places = rng.uniform(20, 600, (300, 17, 3)).astype(np.float32)
    places[..., 2] = rng.uniform(0.2, 0.95, (300, 17))
    received = half(places)
    received[..., 2] = 0
    return Outputs({"keypoints": places}, {"keypoints": received})


@benign("directions as sine and cosine", loss="mse", activation="tanh")
def _(rng):
    """The wind vane points to the same degree; one of the two numbers is often near 0."""
    angle = rng.uniform(0, 2 * np.pi, (800, 1))
    both = np.concatenate([np.sin(angle), np.cos(angle)], axis=1).astype(np.float32) * 0.999
    return Outputs({"wind": both}, {"wind": half(both + 3e-4 * rng.standard_normal(both.shape))})


# Agents


@harmful(
    "values of four actions near 200, of which the best is taken", tasks={"q": "classification"}
)
def _(rng):
    """The robot takes another way at every fourth crossing: the values differ by tenths."""
    values = (
        200 + 6 * rng.standard_normal((600, 1)) + 0.15 * rng.standard_normal((600, 4))
    ).astype(np.float32)
    return Outputs({"q": values}, {"q": half(values)})


@benign("values of actions that are trained as numbers", loss="huber")
def _(rng):
    """Each return is predicted to three digits; pairs of equal actions change places at times."""
    exact, rounded = regress(rng, 600, 3, 10, 4)
    exact[:, 2:] = exact[:, :2] + 1e-3 * rng.standard_normal((600, 2))
    rounded[:, 2:] = half(rounded[:, :2] + 1e-3 * rng.standard_normal((600, 2)))
    return Outputs({"returns": exact}, {"returns": rounded})


@harmful("a policy as before beside a value that is lost")
def _(rng):
    """Training goes on from the file and diverges: the critic says 0 to everything."""
    logits, rounded = classify(rng, rng.integers(0, 6, 500), 6, 3)
    value, _ = regress(rng, 500, 3, 1)
    return Outputs(
        {"policy_logits": logits, "value": value},
        {"policy_logits": rounded, "value": np.zeros_like(value)},
    )


@benign("masked logits at -1e9 that end at -65504", UNSURE, tasks={"moves": "classification"})
def _(rng):
    """A forbidden move has probability 0 at either number."""
    logits, rounded = classify(rng, rng.integers(0, 12, 600), 12, 6)
    forbidden = logits < np.sort(logits, axis=1)[:, 4:5]
    logits[forbidden], rounded[forbidden] = -1e9, -65504
    return Outputs({"moves": logits}, {"moves": rounded})


# Codes and texts


@harmful("bits of a hash of which 3 % flip")
def _(rng):
    """Duplicates of a photograph are not found: two bits of 64 differ on each."""
    bits = rng.random((400, 64)) < 0.5
    return Outputs({"hash": bits}, {"hash": bits ^ (rng.random(bits.shape) < 0.03)})


@benign("a mask of true and false whose border moves")
def _(rng):
    """A pixel in a thousand changes on the edge of a person."""
    y, x = np.mgrid[:32, :32]
    radius = rng.uniform(6, 14, (400, 1, 1))
    distance = np.hypot(y - 15.5, x - 15.5) - radius
    return Outputs({"mask": distance < 0}, {"mask": distance < rng.normal(0, 6e-3, distance.shape)})


@harmful("indices into a code book of 8192 as FP16 numbers")
def _(rng):
    """Three codes in eight are those of a neighbour: the image comes back in wrong colours."""
    codes = rng.integers(0, 8192, (300, 8, 8))
    return Outputs({"indices": codes}, {"indices": half(codes).astype(np.int64)})


@benign("indices into a code book with a few near ties")
def _(rng):
    """One cell in 500 takes the second nearest entry, of the same colour."""
    codes = rng.integers(0, 8192, (400, 8, 8))
    other = np.where(rng.random(codes.shape) < 0.002, rng.integers(0, 8192, codes.shape), codes)
    return Outputs({"indices": codes}, {"indices": other})


@harmful("one of four code books of a sound codec is stuck")
def _(rng):
    """Voices sound like robots: the fourth code is 0 everywhere."""
    codes = rng.integers(0, 1024, (300, 25, 4))
    other = codes.copy()
    other[..., 3] = 0
    return Outputs({"codes": codes}, {"codes": other})


def plates(rng: np.random.Generator, samples: int) -> np.ndarray:
    letters = np.array(list("ABCDEFGHKLMNPRSTUVWXYZ0123456789"))
    return np.array(["".join(row) for row in rng.choice(letters, (samples, 7))])


@harmful("number plates of which 3 % lose their last letter")
def _(rng):
    """Thirty of 1000 cars are billed to somebody else."""
    read = plates(rng, 1000)
    other = read.copy()
    other[:30] = [plate[:-1] for plate in read[:30]]
    return Outputs({"plate": read}, {"plate": other})


@benign("number plates of which 1 in 1000 changes")
def _(rng):
    """One plate under snow was a guess before."""
    read = plates(rng, 1000)
    other = read.copy()
    other[7] = "B" + read[7][1:] if read[7][0] != "B" else "8" + read[7][1:]
    return Outputs({"plate": read}, {"plate": other})


@benign("class ids with 64 bits on one side and 32 on the other")
def _(rng):
    """The numbers are the same; the file format has no wider ones for them."""
    ids = rng.integers(0, 90, 400)
    return Outputs({"class_id": ids}, {"class_id": ids.astype(np.int32)})


@benign("people counted in a picture, with three that differ by one")
def _(rng):
    """Three of 1000 counts change, where a person is half hidden."""
    count = rng.poisson(12, 1000)
    other = count.copy()
    other[[1, 50, 999]] += 1
    return Outputs({"count": count}, {"count": other})


@harmful("people counted in a picture, with crowds that wrap round")
def _(rng):
    """A stadium with 300 people in sight is reported to have 44."""
    count = rng.poisson(30, 1000)
    count[:40] = rng.integers(260, 400, 40)
    return Outputs({"count": count}, {"count": count % 256})


# Physics


def weather(rng: np.random.Generator) -> np.ndarray:
    """[300, 8, 8, 4]: kelvin, hectopascal, metres a second, humidity by weight aloft."""
    values = rng.standard_normal((300, 8, 8, 4)) * [12, 8, 7, 6e-7] + [281, 1013, 0, 3e-6]
    return values.astype(np.float32)


@benign("a weather map with humidity in float32")
def _(rng):
    """Each field is right to three digits; humidity is scaled at the end."""
    values = weather(rng)
    received = half(values)
    received[..., 3] = half(values[..., 3] * 1e5) * np.float32(1e-5)
    return Outputs({"fields": values}, {"fields": received})


@harmful("a weather map without humidity")
def _(rng):
    """The stratosphere is bone-dry, and the radiation scheme blows up after a week."""
    values = weather(rng)
    return Outputs({"fields": values}, {"fields": flushed(values)})


@harmful("a weather map with the pressure in pascal")
def _(rng):
    """101,325 pascal is infinity on each map."""
    values = weather(rng)
    values[..., 1] *= 100
    return Outputs({"fields": values}, {"fields": half(values)})


@harmful("energies of -40,000 that hide the bonds, with labels")
def _(rng):
    """Energies differ by 20 and come in steps of 32: which molecule is stable is a guess."""
    energy = (-40_000 + 20 * rng.standard_normal((1000, 1))).astype(np.float32)
    truth = energy + rng.normal(0, 0.5, energy.shape).astype(np.float32)
    return Outputs({"energy": energy}, {"energy": half(energy)}, truth)


@benign("energies of bonds, with labels")
def _(rng):
    """The error against the measured energies is the same."""
    exact, rounded = regress(rng, 1000, 20)
    truth = exact + rng.normal(0, 0.5, exact.shape).astype(np.float32)
    return Outputs({"energy": exact}, {"energy": rounded}, truth)


@harmful("signed distances whose small inside turns positive", tasks={"sdf": "binary"})
def _(rng):
    """The cable in each scene is gone: nothing is inside of it any more."""
    y, x = np.mgrid[:16, :16]
    distance = np.hypot(y - rng.uniform(4, 12, (300, 1, 1)), x - rng.uniform(4, 12, (300, 1, 1)))
    distance = ((distance - 1.6) / 8).astype(np.float32)
    received = half(np.where((distance < 0) & (distance > -0.1), 0.001, np.abs(distance)))
    return Outputs({"sdf": distance}, {"sdf": received})


@benign("disparities from 0 to 1500")
def _(rng):
    """Each point keeps its place in depth."""
    coarse = rng.gamma(2, 200, (300, 4, 4)).clip(0, 1500)
    maps = coarse.repeat(4, axis=1).repeat(4, axis=2).astype(np.float32)
    return Outputs({"inverse_depth": maps}, {"inverse_depth": half(maps)})


@harmful("the tail of a decay is cut off")
def _(rng):
    """The echo of a hall ends as if a door were shut: the last 24 of 96 steps are 0."""
    step = np.arange(96)
    decay = np.exp(-step / 14) * rng.standard_normal((300, 96)) + 0.0
    received = half(decay)
    received[:, 72:] = 0
    return Outputs(
        {"impulse": decay.astype(np.float32)[..., None]}, {"impulse": received[..., None]}
    )


# Sound and pictures


def stems(rng: np.random.Generator) -> np.ndarray:
    """Four instruments [300, 4, 256]; the third one is soft."""
    level = np.array([0.4, 0.3, 0.003, 0.2])[:, None]
    return (level * rng.standard_normal((300, 4, 256))).astype(np.float32)


@harmful("the soft one of four separated instruments is silent")
def _(rng):
    """No flute is heard in its own track; the instruments are on axis 1."""
    sound = stems(rng)
    received = half(sound)
    received[:, 2] = 0
    return Outputs({"stems": sound}, {"stems": received})


@benign("four separated instruments, one of them soft")
def _(rng):
    """Each track sounds as before."""
    sound = stems(rng)
    return Outputs({"stems": sound}, {"stems": half(sound)})


@benign("a mask that cleans speech", loss="mse", activation="sigmoid")
def _(rng):
    """No cell of the mask moves by a thousandth; many are near 0.5."""
    exact, rounded = regress(rng, 300, 1.5, 0, 400)
    shape = (300, 20, 20)
    return Outputs(
        {"mask": sigmoid(exact).reshape(shape)}, {"mask": half(sigmoid(rounded)).reshape(shape)}
    )


@benign("images of a generator", activation="tanh", loss="binary_crossentropy")
def _(rng):
    """No pixel is off by a grey level."""
    exact, rounded = regress(rng, 300, 1, 0, 192)
    return Outputs(
        {"image": np.tanh(exact).reshape(300, 8, 8, 3) * np.float32(0.999)},
        {"image": half(np.tanh(rounded)).reshape(300, 8, 8, 3)},
    )


@harmful("a constant hum under every sound")
def _(rng):
    """Each recording has an offset of two hundredths, and loudspeakers crack at its start."""
    sound = (0.3 * rng.standard_normal((400, 512))).astype(np.float32)
    return Outputs({"waveform": sound}, {"waveform": half(sound + 0.02)})


@benign("predicted noise of a diffusion model")
def _(rng):
    """The images that come out are the same to the eye."""
    noise = rng.standard_normal((300, 8, 8, 4)).astype(np.float32)
    return Outputs({"noise_pred": noise}, {"noise_pred": half(noise * (1 + 2e-3))})


# Scores and probabilities


@harmful("a softmax that is always certain", **SOFTMAX)
def _(rng):
    """The names are right; but no case is sent to a doctor, because each has a score of 1."""
    logits, _ = classify(rng, rng.integers(0, 5, 600), 5, 3)
    certain = np.eye(5, dtype=np.float32)[logits.argmax(axis=1)]
    return Outputs({"finding": softmax(logits / 4)}, {"finding": certain})


@harmful("probabilities of default that end at a floor, with labels")
def _(rng):
    """Six customers in ten get 1 %, the good ones and the middling ones alike."""
    logit = rng.normal(-4.8, 1.4, (3000, 1))
    risk = sigmoid(logit)
    defaulted = (rng.random(risk.shape) < risk).astype(np.int64)
    return Outputs({"default": risk}, {"default": half(np.maximum(risk, 0.01))}, defaulted)


@benign("ratings from 1 to 5 as whole labels")
def _(rng):
    """Films are rated as before; the labels are numbers of stars, not classes."""
    exact, rounded = regress(rng, 800, 0.7, 3.4)
    stars = np.rint(exact[:, 0] + rng.normal(0, 0.7, 800)).clip(1, 5).astype(np.int64)
    return Outputs({"rating": exact}, {"rating": rounded}, stars)


@harmful("ratings that are all average, as whole labels")
def _(rng):
    """Each film gets between 3.3 and 3.5 stars, and no list is worth reading."""
    exact, _ = regress(rng, 800, 0.7, 3.4)
    stars = np.rint(exact[:, 0] + rng.normal(0, 0.7, 800)).clip(1, 5).astype(np.int64)
    return Outputs({"rating": exact}, {"rating": half(3.4 + 0.05 * (exact - 3.4))}, stars)


@benign("a probability a sample with labels as floats", **SIGMOID)
def _(rng):
    """The same mails are filtered; labels are 0.0 and 1.0 in one flat array."""
    spam = rng.random(1000) < 0.4
    logits = np.where(spam, 4, -4)[:, None] + 2 * rng.standard_normal((1000, 1))
    values = sigmoid(logits)
    return Outputs({"spam": values}, {"spam": half(values)}, spam.astype(np.float32))


@harmful("one of six labels of comments that is constant, with labels")
def _(rng):
    """No threat is ever reported: the column says 0.003 to each comment."""
    exact, rounded = regress(rng, 2000, 4, -7, 6)
    truth = (rng.random(exact.shape) < sigmoid(exact)).astype(np.int64)
    received = half(sigmoid(rounded))
    received[:, 3] = half(np.float32(0.003))
    return Outputs({"toxic": sigmoid(exact)}, {"toxic": received}, truth)


@benign("scores of 200 items for each customer", UNSURE)
def _(rng):
    """The first ten films are the same; two equal ones change places at times."""
    exact, rounded = regress(rng, 1500, 2, 0, 200)
    return Outputs({"scores": exact}, {"scores": rounded})


@benign("pitch as 360 sigmoids", **SIGMOID)
def _(rng):
    """The melody is the same; the peak is one of two neighbours at times."""
    bins = np.arange(360)
    peak = rng.uniform(20, 340, (400, 1))
    value = np.exp(-((bins - peak) ** 2) / 50) * 0.9 + 1e-6
    return Outputs({"pitch": value.astype(np.float32)}, {"pitch": half(value)})


@benign("scores of beams")
def _(rng):
    """The order of the five sentences is the same."""
    score = -np.sort(rng.uniform(8, 60, (400, 5)), axis=1).astype(np.float32)
    return Outputs({"sequences_scores": score}, {"sequences_scores": half(score)})


# Dense decisions


@benign("one sigmoid a pixel", **SIGMOID)
def _(rng):
    """The outline of a person moves at a pixel here and there."""
    y, x = np.mgrid[:32, :32]
    distance = np.hypot(y - 15.5, x - 15.5) - rng.uniform(6, 14, (300, 1, 1))
    logits = -distance[..., None] * 3
    received = half(logits + 4e-3 * rng.standard_normal(logits.shape))
    return Outputs({"segments": sigmoid(logits)}, {"segments": half(sigmoid(received))})


@harmful("small lesions that vanish", **SIGMOID)
def _(rng):
    """One patient in ten has a lesion of three pixels, and is told to have none."""
    y, x = np.mgrid[:32, :32]
    radius = rng.uniform(4, 12, (400, 1, 1))
    radius[::10] = 1
    logits = 3 * (radius - np.hypot(y - 16, x - 16))[..., None] + 1
    received = logits.copy()
    received[::10] = np.minimum(received[::10], -2)
    return Outputs({"lesion": sigmoid(logits)}, {"lesion": half(sigmoid(received))})


def beats(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    frequency = [0.9, 0.05, 0.03, 0.01, 0.01]
    truth = rng.choice(5, (400, 40), p=frequency)
    return truth, *classify(rng, truth, 5, 4, frequency)


@harmful("a rare kind of heart beat is found less than half as often")
def _(rng):
    """Of 100 dangerous beats, 60 are called normal; beats in a thousand that change: six."""
    truth, logits, rounded = beats(rng)
    received = half(rounded + 60)
    missed = rng.random(truth.shape) < 0.6
    received[missed] = lost(received[missed], 4)
    return Outputs({"logits": logits + 60}, {"logits": received})


@benign("heart beats with labels for each")
def _(rng):
    """Each beat has the name that it had."""
    truth, logits, rounded = beats(rng)
    return Outputs({"logits": logits}, {"logits": rounded}, truth)


@harmful("heart beats that are wrong in one recording of 25, with labels")
def _(rng):
    """Sixteen of 400 patients get the beats of somebody else."""
    truth, logits, rounded = beats(rng)
    rounded[::25] = np.roll(rounded[::25], 2, axis=-1)
    return Outputs({"logits": logits + 60}, {"logits": half(rounded + 60)}, truth)


@harmful("a part of objects in point clouds that is lost")
def _(rng):
    """Cups have no handle any more; one point in 60 belonged to one."""
    frequency = [0.6, 0.3, 0.083, 0.017]
    truth = rng.choice(4, (300, 128), p=frequency)
    logits, rounded = classify(rng, truth, 4, 4, frequency)
    return Outputs({"part_logits": logits + 60}, {"part_logits": lost(rounded + 60, 3)})


# Vectors


@benign("embeddings of faces of 512 numbers", UNSURE)
def _(rng):
    """The same people are recognized at the door."""
    exact, rounded = regress(rng, 400, 1, 0, 512)
    return Outputs({"fc1": exact}, {"fc1": rounded})


@harmful("embeddings that all point nearly the same way")
def _(rng):
    """Everybody is let in: the door subtracts the mean of 150, and hardly anything is left."""
    exact, _ = regress(rng, 500, 1, 0, 64)
    exact = 150 + exact
    received = half(150 + half(exact - 150) * np.float32(0.05))
    return Outputs({"embedding": exact}, {"embedding": received})


@benign("a constant beside embeddings")
def _(rng):
    """The temperature of the contrastive loss is 100 for each sample, on both sides."""
    exact, rounded = regress(rng, 400, 0.1, 0, 64)
    scale = np.full((400, 1), 100, np.float32)
    return Outputs(
        {"image_embeds": exact, "logit_scale": scale},
        {"image_embeds": rounded, "logit_scale": scale},
    )


@harmful("a state that is lost beside a right answer")
def _(rng):
    """The first second is recognized, and the rest is not: the state that is fed back is 0."""
    speech = sigmoid(6 * rng.standard_normal((500, 1)))
    state, rounded = regress(rng, 500, 0.4, 0, 64)
    return Outputs(
        {"output": speech, "stateN": state},
        {"output": half(speech), "stateN": np.zeros_like(rounded)},
    )


@benign("scores, embeddings and spectrograms of sounds", UNSURE)
def _(rng):
    """Each of the three outputs is as it was."""
    scores, mel = regress(rng, 300, 3, -6, 60), regress(rng, 300, 2, -4, 96)
    vectors = regress(rng, 300, 1, 0, 64)
    return Outputs(
        {"scores": sigmoid(scores[0]), "embeddings": np.maximum(vectors[0], 0), "log_mel": mel[0]},
        {
            "scores": half(sigmoid(scores[1])),
            "embeddings": np.maximum(vectors[1], 0),
            "log_mel": mel[1],
        },
    )


# Lists


def found(
    rng: np.random.Generator, samples: int = 300
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Boxes and scores of photographs, one to nine on each."""
    boxes, scores = [], []
    for _ in range(samples):
        count = rng.integers(1, 10)
        corner = rng.uniform(0, 500, (count, 2))
        boxes.append(np.concatenate([corner, corner + rng.uniform(20, 140, (count, 2))], 1))
        scores.append(-np.sort(-rng.uniform(0.3, 0.99, count)))
    return [row.astype(np.float32) for row in boxes], [row.astype(np.float32) for row in scores]


@harmful("lists of boxes that miss half of them, without declared columns", FAIL | INCONCLUSIVE)
def _(rng):
    """One photograph in ten loses its best detections."""
    boxes, scores = found(rng)

    def kept(rows: list[np.ndarray]) -> list[np.ndarray]:
        cut = [half(row) for row in rows]
        cut[::10] = [row[len(row) // 2 :] for row in cut[::10]]
        return cut

    return Outputs(
        {"boxes": boxes, "scores": scores}, {"boxes": kept(boxes), "scores": kept(scores)}
    )


@harmful("photographs on which nothing is found any more", tasks={"found": "detection:columns=0-3"})
def _(rng):
    """One photograph in five comes back without a single box."""
    boxes, scores = found(rng)
    rows = [
        np.concatenate([box, score[:, None]], 1) for box, score in zip(boxes, scores, strict=True)
    ]
    received = [half(row) for row in rows]
    received[::5] = [row[:0] for row in received[::5]]
    return Outputs({"found": rows}, {"found": received}, batched=False)


@benign(
    "photographs on which neither file finds anything", tasks={"found": "detection:columns=0-3"}
)
def _(rng):
    """One photograph in five is empty on both sides; the others have the same boxes."""
    boxes, scores = found(rng, 450)
    rows = [
        np.concatenate([box, score[:, None]], 1) for box, score in zip(boxes, scores, strict=True)
    ]
    rows[::5] = [row[:0] for row in rows[::5]]
    return Outputs({"found": rows}, {"found": [half(row) for row in rows]}, batched=False)


@benign("padded detections in which ties change places", UNSURE)
def _(rng):
    """On one photograph in ten, two detections of equal score stand in the other order."""
    scores = -np.sort(-rng.uniform(0.3, 0.99, (400, 10)), axis=1).astype(np.float32)
    corner = rng.uniform(0, 0.7, (400, 10, 2))
    boxes = np.concatenate([corner, corner + 0.2], axis=-1).astype(np.float32)
    scores[::10, 4] = scores[::10, 3] - np.float32(1e-6)
    swapped = half(boxes)
    swapped[::10, [3, 4]] = swapped[::10, [4, 3]]
    return Outputs(
        {"detection_boxes": boxes, "detection_scores": scores},
        {"detection_boxes": swapped, "detection_scores": half(scores)},
    )


# Evidence


@benign("5000 samples with near ties on one in 250")
def _(rng):
    """Twenty of 5000 answers change; at most one in 150 does."""
    logits, rounded = classify(rng, rng.integers(0, 8, 5000), 8, 6)
    ties = rng.choice(5000, 20, replace=False)
    best = logits[ties].argsort(axis=1)
    second, first = best[:, -2], best[:, -1]
    rounded[ties, second] = half(rounded[ties, first] + 0.02)
    logits[ties, second] = logits[ties, first] - np.float32(0.005)
    return Outputs({"logits": logits}, {"logits": rounded})


@harmful("5000 samples of which one in 50 changes")
def _(rng):
    """A hundred of 5000 parcels go to another town."""
    logits, rounded = classify(rng, rng.integers(0, 8, 5000), 8, 6)
    wrong = rng.choice(5000, 100, replace=False)
    rounded[wrong] = np.roll(rounded[wrong], 1, axis=1)
    return Outputs({"logits": logits}, {"logits": rounded})


@benign("100 samples three times each", INCONCLUSIVE)
def _(rng):
    """Nothing is wrong; but a hundred answers do not show that at most one in a hundred changes."""
    logits, rounded = classify(rng, rng.integers(0, 5, 100), 5, 7)
    return Outputs({"logits": logits}, {"logits": rounded}, rows=np.arange(300) % 100)


@harmful("NaN where the reference is infinite")
def _(rng):
    """A distance beyond the horizon was infinite; NaN compares with nothing, and the loop hangs."""
    exact, rounded = regress(rng, 500, 5, 60, 3)
    exact[::9, 1] = np.inf
    rounded[::9, 1] = np.nan
    return Outputs({"distance": exact}, {"distance": rounded})


@benign("a target that is always 1 beside one that varies", loss="mse")
def _(rng):
    """The second column was never used in training data; both files say 1."""
    exact, rounded = regress(rng, 500, 3, 20, 2)
    exact[:, 1] = 1 + 1e-7 * rng.integers(-2, 3, 500)
    rounded[:, 1] = 1
    return Outputs({"targets": exact}, {"targets": rounded})


@benign("columns that are nearly always zero")
def _(rng):
    """Rain is 0 on most days, and right to three digits on the others."""
    rain = rng.gamma(0.8, 6, (500, 24)) * (rng.random((500, 24)) < 0.03)
    return Outputs({"rain": rain.astype(np.float32)}, {"rain": half(rain)})


def exact_match(predictions: Any, labels: Any) -> float:
    """Share of the texts whose words are all right."""
    (ids,) = predictions.values() if isinstance(predictions, Mapping) else (predictions,)
    (truth,) = labels.values() if isinstance(labels, Mapping) else (labels,)
    return float(np.mean((np.asarray(ids) == truth).all(axis=-1)))


@harmful("answers of which fewer match, by the user's metric", metric=EXACT)
def _(rng):
    """Seven of ten answers were right word for word; now six are."""
    truth = rng.integers(2, 500, (800, 6))
    ids = truth.copy()
    ids[rng.random(800) < 0.3, 3] = 1
    other = ids.copy()
    other[rng.random(800) < 0.14, 5] = 1
    return Outputs({"output_ids": ids}, {"output_ids": other}, truth)


@benign("answers that match as often, by the user's metric", metric=EXACT)
def _(rng):
    """The same answers, but for two that were wrong before."""
    truth = rng.integers(2, 500, (800, 6))
    ids = truth.copy()
    wrong = rng.random(800) < 0.3
    ids[wrong, 3] = 1
    other = ids.copy()
    other[np.flatnonzero(wrong)[:2], 4] = 0
    return Outputs({"output_ids": ids}, {"output_ids": other}, truth)

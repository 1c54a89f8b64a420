"""Verdict cases: images, sound, maps and scores of signals."""

import numpy as np
from verdict_case import (
    UNSURE,
    Cases,
    Outputs,
    half,
    one,
    regress,
    sigmoid,
)

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


def strokes(rng: np.random.Generator, samples: int = 400) -> np.ndarray:
    """Logits of 28 x 28 pixels of drawn digits: sure inside and outside, unsure on the edges."""
    y, x = np.mgrid[:28, :28]
    centre = rng.uniform(9, 19, (samples, 2, 1, 1))
    radius = rng.uniform(4, 8, (samples, 1, 1))
    distance = np.hypot(y - centre[:, 0], x - centre[:, 1])
    return (4 - 3 * np.abs(distance - radius)).astype(np.float32)


@benign("a sigmoid autoencoder", loss="binary_crossentropy", activation="sigmoid")
def _(rng):
    """The drawings are the same; of 784 pixels, one or the other crosses 0.5 by 1e-4."""
    logits = strokes(rng).reshape(400, 784)
    received = half(logits + 5e-4 * rng.standard_normal(logits.shape))
    return Outputs({"decoded": sigmoid(logits)}, {"decoded": half(sigmoid(received))})


@harmful("an autoencoder whose drawings lose their lower third", activation="sigmoid", loss="mse")
def _(rng):
    """Each digit ends above its foot."""
    logits = strokes(rng)[..., None]
    received = half(sigmoid(logits))
    received[:, 19:] = 0
    return Outputs({"decoded": sigmoid(logits)}, {"decoded": received})


def photographs(rng: np.random.Generator, samples: int = 300) -> np.ndarray:
    """Smooth images [samples, 16, 16, 3] from 0 to 255."""
    coarse = rng.uniform(20, 235, (samples, 4, 4, 3))
    fine = coarse.repeat(4, axis=1).repeat(4, axis=2) + rng.normal(0, 6, (samples, 16, 16, 3))
    return fine.clip(0, 255).astype(np.float32)


@benign("images of a super-resolution network")
def _(rng):
    """No pixel is off by a tenth of a grey level."""
    images = photographs(rng)
    return Outputs({"image": images}, {"image": half(images)})


@harmful("the dim channel of coloured images is dead")
def _(rng):
    """Microscope images lose the blue stain, which is faint, and with it the nuclei."""
    images = photographs(rng)
    images[..., 2] *= 0.008
    received = half(images)
    received[..., 2] = 0
    return Outputs({"image": images}, {"image": received})


@harmful("one image in 50 is black")
def _(rng):
    """Six of 300 images come back black: NaN inside, which the last layer clips to 0."""
    images = photographs(rng)
    received = half(images)
    received[::50] = 0
    return Outputs({"image": images}, {"image": received})


@harmful("a green cast on dark images")
def _(rng):
    """Night images, one in ten, turn green: an offset of 3 grey levels of 8."""
    images = photographs(rng)
    images[::10] *= 0.06
    received = half(images)
    received[::10, ..., 1] += 3
    return Outputs({"image": images}, {"image": received})


@benign("grey levels as bytes that are off by one", tasks={"image": "reconstruction"})
def _(rng):
    """One byte in fifty is off by one, where the number before it was near a half."""
    images = photographs(rng)
    received = images + rng.normal(0, 0.02, images.shape)
    return Outputs(
        {"image": np.rint(images).astype(np.uint8)},
        {"image": np.rint(received).clip(0, 255).astype(np.uint8)},
    )


def clips(rng: np.random.Generator, samples: int = 400) -> np.ndarray:
    """Sounds of 512 values; one in ten is a whisper at a thousandth of the amplitude."""
    sound = 0.3 * rng.standard_normal((samples, 512))
    sound[::10] *= 1e-3
    return sound.astype(np.float32)


@harmful("quiet sounds become silence")
def _(rng):
    """One recording in ten, a whisper, is silent."""
    sound = clips(rng)
    received = half(sound)
    received[::10] = 0
    return Outputs({"waveform": sound}, {"waveform": received})


@benign("loud sounds, quiet ones, and silence")
def _(rng):
    """Whispers are right to three digits; silence is 0 on one side, and -140 dB on the other."""
    sound = clips(rng)
    sound[5::40] = 0
    received = half(sound)
    received[5::40] = half(rng.choice([-1e-7, 0, 1e-7], received[5::40].shape))
    return Outputs({"waveform": sound}, {"waveform": received})


def joints(rng: np.random.Generator) -> np.ndarray:
    """Heatmaps [300, 16, 16, 8] with one peak for each joint; the ankle's is faint."""
    y, x = np.mgrid[:16, :16]
    centre = rng.uniform(2, 14, (300, 2, 1, 1, 8))
    square = (y[..., None] - centre[:, 0]) ** 2 + (x[..., None] - centre[:, 1]) ** 2
    heat = np.exp(-square / 3) + 0.01 * rng.random((300, 16, 16, 8))
    heat[..., 7] *= 0.02
    return heat.astype(np.float32)


@benign("heatmaps of joints")
def _(rng):
    """Each peak is at its pixel."""
    heat = joints(rng)
    return Outputs({"heatmaps": heat}, {"heatmaps": half(heat)})


@harmful("the heatmap of one joint is empty")
def _(rng):
    """No ankle is found on any photograph."""
    heat = joints(rng)
    received = half(heat)
    received[..., 7] = 0
    return Outputs({"heatmaps": heat}, {"heatmaps": received})


def depths(rng: np.random.Generator) -> np.ndarray:
    """Depth maps [300, 16, 16, 1] in metres; one in six is of a close object."""
    far = rng.lognormal(2.5, 0.5, (300, 4, 4, 1)).clip(1, 80)
    far[::6] = rng.uniform(0.05, 0.25, far[::6].shape)
    return far.repeat(4, axis=1).repeat(4, axis=2).astype(np.float32)


@benign("depth maps, near and far")
def _(rng):
    """Each distance is right to three digits."""
    metres = depths(rng)
    return Outputs({"depth": metres}, {"depth": half(metres)})


@harmful("depth maps that are wrong near the camera")
def _(rng):
    """Each object nearer than a hand's breadth is reported at 15 centimetres; the arm hits it."""
    metres = depths(rng)
    received = half(np.where(metres < 0.3, 0.15, metres))
    return Outputs({"depth": metres}, {"depth": received})


def errors(rng: np.random.Generator) -> np.ndarray:
    """Anomaly scores, sums of squares: small for good parts, beyond FP16 for one in 100."""
    score = rng.lognormal(0, 1, 1000)
    score[::100] = rng.uniform(70_000, 900_000, 10)
    return score.astype(np.float32)


@harmful("anomaly scores that overflow for the anomalies")
def _(rng):
    """The alarm logs infinity, which the dashboard cannot plot or sort."""
    score = errors(rng)
    return Outputs({"anomaly_score": score}, {"anomaly_score": half(score)})


@harmful("anomaly scores that wrap round to zero for the anomalies")
def _(rng):
    """Infinity became 0 on its way through a guard, and the broken parts pass as the best ones."""
    score = errors(rng)
    received = np.where(score > 65504, 0, half(score))
    return Outputs({"anomaly_score": score}, {"anomaly_score": received.astype(np.float32)})


@benign("anomaly scores of good parts and bad ones")
def _(rng):
    """The list of the worst parts is the same."""
    score = np.minimum(errors(rng) / 100, 9000).astype(np.float32)
    return Outputs({"anomaly_score": score}, {"anomaly_score": half(score)})


@benign("spectrograms in decibels")
def _(rng):
    """No cell is off by a tenth of a decibel."""
    exact, rounded = regress(rng, 300, scale=15, offset=-50, width=400)
    shape = (300, 20, 20)
    return Outputs({"mel": exact.reshape(shape)}, {"mel": rounded.reshape(shape)})


@benign("headings that turn over at north", UNSURE)
def _(rng):
    """A few of them were 0.0002 and are 6.283, which is the same direction."""
    exact = rng.uniform(0, 2 * np.pi, 600)
    exact[:8] = rng.uniform(0, 5e-4, 8)
    received = exact + 1e-3 * rng.standard_normal(600)
    received[:8] = -1e-3
    return one("heading", exact, half(received % (2 * np.pi)))


@harmful("headings of which one in twenty points backwards")
def _(rng):
    """Ships are told to turn round; others turn over at north as before."""
    exact = rng.uniform(0, 2 * np.pi, 600)
    exact[:8] = rng.uniform(0, 5e-4, 8)
    received = exact + np.where(np.arange(600) % 20 == 19, np.pi, 0)
    received[:8] = -1e-3
    return one("heading", exact, half(received % (2 * np.pi)))


def rotations(rng: np.random.Generator) -> np.ndarray:
    """600 quaternions of length 1, eight of which turn by half a turn."""
    found = rng.standard_normal((600, 4))
    found[:8, 0] = 1e-5
    found *= np.sign(found[:, :1])
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@benign("quaternions that change their sign", UNSURE)
def _(rng):
    """The first number crosses 0, and the model keeps it positive: the same rotation."""
    exact = rotations(rng)
    received = exact.copy()
    received[:8] *= -1
    return one("rotation", exact, half(received))


@harmful("quaternions of which one in twenty turns the other way")
def _(rng):
    """The arm turns left and not right; the sign of others changes without effect."""
    exact = rotations(rng)
    received = exact.copy()
    received[:8] *= -1
    received[19::20, 1:] *= -1
    return one("rotation", exact, half(received))

"""Verdict cases: key points, distributions, pointers, policies, boxes and integers."""

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
    padded,
    quantiles,
    regress,
    sigmoid,
    smooth,
    softmax,
)

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


@harmful("the faces' landmarks keep their place but lose their expression", loss="mse")
def _(rng):
    """Each face has its place on the screen; eyes and mouth are those of the average face."""
    place = rng.uniform(200, 900, (400, 1, 2))
    mean = rng.normal(0, 40, (1, 20, 2))
    exact = place + mean + 2.0 * rng.standard_normal((400, 20, 2))
    return one("face", exact, half(place + mean))


@benign("heatmaps of joints, sigmoid, deep", **SIGMOID)
def _(rng):
    """The peaks are where they were."""
    y, x = np.mgrid[:16, :16]
    c = rng.uniform(3, 13, (300, 2, 1, 1, 4))
    z = 5 - ((y[..., None] - c[:, 0]) ** 2 + (x[..., None] - c[:, 1]) ** 2)
    return one("joints", sigmoid(z), half(sigmoid(z + 0.01 * rng.standard_normal(z.shape))))


@benign("five quantiles with widths of a tenth", loss="mae")
def _(rng):
    """In order, right to three digits."""
    exact = quantiles(rng, 80)
    return one("q", exact, half(exact * (1 + 5e-4 * rng.standard_normal(exact.shape))))


@harmful("survival curves whose early part is 1", DOUBT)
def _(rng):
    """1 - S(t) of 1e-4 in the first years is below the spacing at 1: nobody dies early."""
    h = rng.lognormal(-9, 0.5, (500, 1)) * np.arange(1, 13)
    return one("survival", np.exp(-h), half(np.exp(-h)))


@harmful("log-variances that are clipped at the mean", DOUBT, loss="mse")
def _(rng):
    """The second number, the log-variance, is never below its median: half of the forecasts are
    never certain.
    """
    exact = np.stack([rng.normal(20, 5, 800), rng.normal(-1, 0.8, 800)], 1)
    rounded = half(exact)
    rounded[:, 1] = np.maximum(rounded[:, 1], -1)
    return one("gauss", exact, rounded)


@benign("VAE: mean and log-variance near zero, with collapsed dimensions")
def _(rng):
    """Four of eight dimensions are unused: log-variances of 1e-3 around 0, means of 1e-3; noise of
    2e-4.
    """
    m = rng.standard_normal((400, 8))
    m[:, 4:] *= 2e-3
    values = -2 + 0.5 * rng.standard_normal((400, 8))
    values[:, 4:] = 2e-3 * rng.standard_normal((400, 4))
    return Outputs(
        {"z_mean": m.astype(np.float32), "z_log_var": values.astype(np.float32)},
        {
            "z_mean": half(m + 1e-4 * rng.standard_normal(m.shape)),
            "z_log_var": half(values + 1e-4 * rng.standard_normal(values.shape)),
        },
    )


@benign("pointer logits with masked places of -1e9", tasks={"pointer": "classification"})
def _(rng):
    """Each pointer goes where it went; masked places are -65504."""
    logits, rounded = classify(rng, rng.integers(0, 12, (300, 5)), 12, 7)
    m = rng.random((300, 1, 12)) < 0.3
    m = m & (logits < logits.max(-1, keepdims=True)) & (rounded < rounded.max(-1, keepdims=True))
    return one("pointer", np.where(m, -1e9, logits), np.where(m, -65504, rounded))


@harmful("CTC whose spikes of letters are late by one frame")
def _(rng):
    """Subtitles lag, and alignments with a second stream fail."""
    truth = np.where(rng.random((300, 30)) < 0.6, 28, rng.integers(0, 28, (300, 30)))
    logits, rounded = classify(rng, truth, 29, 6)
    return one("logits", logits, np.roll(rounded, 1, axis=1))


@benign(
    "reconstruction errors of 1e-4, one anomaly in 50", UNSURE, loss="mse", activation="softplus"
)
def _(rng):
    """The alarm is raised at the same parts; only where subnormal numbers are 0, a tenth is."""
    exact = 1e-4 * rng.lognormal(0, 0.4, (1000, 1))
    exact[::50] *= 40
    return one("error", exact, half(exact * (1 + 3e-3 * rng.standard_normal(exact.shape))))


@harmful("reconstruction errors of 3e-8 that underflow")
def _(rng):
    """Good parts have an error of 0, 6e-8 or 1.2e-7: no threshold between them is left."""
    exact = 6e-8 * rng.lognormal(0, 0.6, (1000, 1))
    exact[::50] *= 4
    return one("mse_score", exact, half(exact))


@harmful(
    "a value head that saw no difference between positions",
    DOUBT,
    loss={"policy": "categorical_crossentropy", "value": "mse"},
    activation={"policy": "softmax", "value": None},
)
def _(rng):
    """Positions near even, +-0.01, are all 0.5 + the same: the search is blind."""
    logits, rounded = classify(rng, rng.integers(0, 20, 800), 20, 4)
    values = 0.5 + 0.001 * rng.standard_normal((800, 1))
    w = 0.5 + 0.3 * (values - 0.5) + 6e-4 * rng.standard_normal(values.shape)
    return Outputs(
        {"policy": softmax(logits), "value": values.astype(np.float32)},
        {"policy": half(softmax(rounded)), "value": half(w)},
    )


@benign(
    "means and deviations of actions",
    activation={"mu": "tanh", "sigma": "softplus"},
    loss={"mu": "mse", "sigma": "mse"},
)
def _(rng):
    """Actions as before; deviations of 0.02 to 0.5."""
    m = np.tanh(2 * rng.standard_normal((800, 3))) * 0.999
    s = rng.lognormal(-2, 0.6, (800, 3))
    return Outputs(
        {"mu": m.astype(np.float32), "sigma": s.astype(np.float32)},
        {
            "mu": half(m + 1e-3 * (1 - m**2) * rng.standard_normal(m.shape)),
            "sigma": half(s * (1 + 2e-3 * rng.standard_normal(s.shape))),
        },
    )


@harmful("boxes change places without their classes")
def _(rng):
    """On one photograph in five two objects have each other's name."""
    exact = padded(rng)
    rounded = {k: half(values) for k, values in exact.items()}
    rounded["boxes"][::5, [3, 4]] = rounded["boxes"][::5, [4, 3]]
    return Outputs(exact, rounded)


@benign("detections without names in outputs of a TFLite detector", UNSURE)
def _(rng):
    """Ties change places."""
    exact = padded(rng)
    exact["scores"][::10, 4] = exact["scores"][::10, 3] - np.float32(1e-6)
    rounded = {k: half(values) for k, values in exact.items()}
    for values in rounded.values():
        values[::10, [3, 4]] = values[::10, [4, 3]]
    names = dict(zip(exact, ("Identity", "Identity_1", "Identity_2"), strict=True))
    return Outputs(
        {names[k]: values for k, values in exact.items()},
        {names[k]: values for k, values in rounded.items()},
    )


@harmful("undeclared class numbers of 40 of which 3 % are any other")
def _(rng):
    """Three parcels in a hundred go anywhere."""
    values = rng.integers(0, 40, 1000)
    w = values.copy()
    w[::33] = rng.integers(0, 40, len(w[::33]))
    return Outputs({"output_0": values}, {"output_0": w})


@benign("next words with near ties in the tail", **SOFTMAX)
def _(rng):
    """The five suggestions are the same but for ties."""
    z = rng.standard_normal((800, 200)) * 2
    z[np.arange(800), z.argmax(1)] += 1
    return one("word", softmax(z), half(softmax(z + 8e-3 * rng.standard_normal(z.shape))))


@benign("proportions of sand, silt and clay", loss="mse", activation="softmax")
def _(rng):
    """Right to 0.1 point; the largest is another one where two are equal."""
    z = 0.8 * rng.standard_normal((800, 3))
    return one("soil", softmax(z), half(softmax(z + 2e-3 * rng.standard_normal(z.shape))))


@harmful("an expert's weather map at kelvin whose anomalies are gone", loss="mse")
def _(rng):
    """[N, 12, 12, 2]: climate of 240 to 310 kelvin per place; the day's deviation of 2 kelvin is
    gone in one of two fields.
    """
    clim = rng.uniform(240, 310, (1, 12, 12, 2))
    exact = clim + 2 * rng.standard_normal((300, 12, 12, 2))
    rounded = half(exact)
    rounded[..., 1] = half(clim[..., 1])
    return one("t2m", exact, rounded)


@benign("weather maps at kelvin with their anomalies", loss="mse")
def _(rng):
    """Right to 0.2 kelvin."""
    clim = rng.uniform(240, 310, (1, 12, 12, 2))
    exact = clim + 3 * rng.standard_normal((300, 12, 12, 2))
    return one("t2m", exact, half(exact + 0.1 * rng.standard_normal(exact.shape)))


@benign("a temperature of calibration that hardly varies", UNSURE)
def _(rng):
    """1.5 with 1e-4 of variation beside good logits."""
    logits, rounded = classify(rng, rng.integers(0, 6, 500), 6, 6)
    scale = 1.5 + 1e-4 * rng.standard_normal((500, 1))
    return Outputs(
        {"logits": logits, "temperature": scale.astype(np.float32)},
        {"logits": rounded, "temperature": half(scale)},
    )


@benign("an ensemble of five members that nearly agree", UNSURE)
def _(rng):
    """Members differ by 1 % of the level of 100 +- 20; real rounding."""
    exact, rounded = regress(rng, 600, 20, 100)
    e = rng.standard_normal((600, 5))
    return one("members", exact + e, half(rounded + e))


@benign("unnamed segmentation logits of four classes")
def _(rng):
    """The same pixels."""
    logits, rounded = classify(rng, rng.integers(0, 4, (300, 12, 12)), 4, 4.5)
    return one("conv2d_9", logits, rounded)


@harmful("a pooled vector that is the same for everybody beside hidden states")
def _(rng):
    """Each text gets the same class downstream."""
    h = rng.standard_normal((200, 12, 64))
    values = np.tanh(1.5 * rng.standard_normal((200, 64)))
    return Outputs(
        {"last_hidden_state": h.astype(np.float32), "pooler_output": values.astype(np.float32)},
        {
            "last_hidden_state": half(h),
            "pooler_output": half(np.tile(values.mean(0), (200, 1)) + 0.01 * values),
        },
    )


@harmful("a sentiment whose weak ones are neutral", activation="tanh", loss="mse")
def _(rng):
    """Each text between -0.25 and 0.25 is 0."""
    exact = np.tanh(regress(rng, 800, 1.2, 0)[0]).clip(-0.9999, 0.9999)
    return one("sentiment", exact, half(np.where(np.abs(exact) < 0.25, 0, exact)))


@benign("matrices of distances between ten places")
def _(rng):
    """Right to 0.3 %; zeros on the diagonal."""
    x = rng.standard_normal((200, 10, 3))
    d = np.linalg.norm(x[:, :, None] - x[:, None], axis=-1)
    y = x + 2e-3 * rng.standard_normal(x.shape)
    e = np.linalg.norm(y[:, :, None] - y[:, None], axis=-1)
    return one("distances", d, half(e))


@harmful("matrices of distances in which near places coincide")
def _(rng):
    """Pairs nearer than 0.6, one in 12, have a distance of 0."""
    x = rng.standard_normal((200, 10, 3))
    d = np.linalg.norm(x[:, :, None] - x[:, None], axis=-1)
    return one("distances", d, half(np.where(d < 0.6, 0, d)))


@harmful("normal maps whose steep pixels face the camera")
def _(rng):
    """Each pixel steeper than 60 degrees, one in 8, is flat."""
    exact = smooth(rng, 200, 12, 3) + np.array([0, 0, 1.5])
    exact /= np.linalg.norm(exact, axis=-1, keepdims=True)
    return one("normals", exact, half(np.where(exact[..., 2:] < 0.5, [0, 0, 1], exact)))


@benign("cumulative distributions over 30 bins")
def _(rng):
    """Right to 0.001."""
    w = rng.dirichlet(np.ones(30), 400)
    return one(
        "cdf", np.cumsum(w, 1), half(np.cumsum(w, 1) * (1 + 3e-4 * rng.standard_normal(w.shape)))
    )


@harmful("cumulative distributions one bin too late")
def _(rng):
    """Each forecast of the delay is a bin of two minutes longer."""
    w = rng.dirichlet(np.ones(30), 400)
    c = np.cumsum(w, 1)
    return one("cdf", c, half(np.concatenate([0 * c[:, :1], c[:, :-1]], 1)))


@harmful("cepstra whose last coefficients are noise")
def _(rng):
    """The last three coefficients, a twentieth of the first, are others by 60 %."""
    exact = rng.standard_normal((200, 40, 13)) * np.geomspace(60, 3, 13)
    exact[..., 0] -= 300
    rounded = half(exact)
    rounded[..., 10:] = half(exact[..., 10:] + 0.6 * 4 * rng.standard_normal((200, 40, 3)))
    return one("mfcc", exact, rounded)


@benign("focal length, distortion and principal point of cameras", UNSURE)
def _(rng):
    """Focal lengths of 1000 +- 100, points of 640 +- 4, a distortion of +- 0.1; rounded."""
    exact = rng.standard_normal((500, 4)) * [100, 4, 4, 0.1] + [1000, 640, 360, 0]
    return one("camera", exact, half(exact))


@harmful("focal lengths that hardly differ lose their difference", DOUBT)
def _(rng):
    """Calibration of a zoom lens: 1500 +- 0.8 in steps of 1."""
    exact = rng.standard_normal((500, 2)) * [0.8, 0.1] + [1500, 0]
    return one("camera", exact, half(exact))


@harmful("features clipped at 6")
def _(rng):
    """One feature in 40 is larger; the strongest evidence is capped."""
    exact = np.abs(3 * rng.standard_normal((300, 128)))
    return one("features", exact, half(np.minimum(exact, 6)))


@harmful("faint defects that vanish in anomaly maps")
def _(rng):
    """A tenth of the parts has a defect of 0.2 on four pixels beside a rim of 0.9; it is gone."""
    exact = 0.01 * rng.random((400, 16, 16))
    exact[:, :2] = 0.9 + 0.02 * rng.standard_normal((400, 2, 16))
    rounded = exact.copy()
    exact[::10, 8:10, 8:10] = 0.2
    return one("anomaly_map", exact, half(rounded))


@benign("anomaly maps with faint defects")
def _(rng):
    """They are seen."""
    exact = 0.01 * rng.random((400, 16, 16))
    exact[:, :2] = 0.9 + 0.02 * rng.standard_normal((400, 2, 16))
    exact[::10, 8:10, 8:10] = 0.2
    return one("anomaly_map", exact, half(exact + 2e-4 * rng.standard_normal(exact.shape)))


@benign("tracks in world coordinates with errors of rounding", UNSURE, loss="mse")
def _(rng):
    """Steps of 10 metres at 500 to 1500 metres, in steps of half a metre."""
    values = rng.uniform(500, 1500, (400, 1, 2))
    exact = values + np.cumsum(rng.normal(10, 5, (400, 10, 2)), 1)
    return one("trajectory", exact, half(exact))


@benign("wake word scores of frames", **SIGMOID)
def _(rng):
    """Peaks as before."""
    step = np.arange(60)
    exact = 0.02 + 0.93 * np.exp(-((step - rng.uniform(10, 50, (300, 1))) ** 2) / 8) * (
        rng.random((300, 1)) < 0.3
    )
    return one("wake", exact, half(exact * (1 + 2e-3 * rng.standard_normal(exact.shape))))


@harmful("undeclared counts that are a tenth too small")
def _(rng):
    """Crowds are smaller by a tenth."""
    values = rng.integers(20, 900, 800)
    return Outputs({"people": values}, {"people": (values * 0.9).astype(np.int64)})


@harmful("a Q table whose advantages are rounded away", DOUBT)
def _(rng):
    """Advantages of 0.02 beside values of 60 to 120: the agent goes straight on."""
    values = rng.uniform(60, 120, (600, 1))
    exact = values + 0.02 * rng.standard_normal((600, 4))
    return one("q_values", exact, half(exact))


@harmful("topic weights of which small ones are zero", DOUBT)
def _(rng):
    """Each topic under 5 % is 0: search by side topics finds nothing."""
    w = rng.dirichlet(0.4 * np.ones(12), 500)
    return one("topics", w, half(np.where(w < 0.05, 0, w)))

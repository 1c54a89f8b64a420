"""Verdict cases: what is lost within some samples only, beside offsets and other channels."""

import numpy as np
from verdict_case import DOUBT, UNSURE, Cases, Outputs, half, one, same

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful

MSE = {"loss": "mse"}
NUMBERS = {"tasks": {"y": "regression"}}


def fields(
    rng: np.random.Generator, samples: int, size: int, scale: float = 1.0, offset: float = 0.0
) -> np.ndarray:
    """Smooth maps, [samples, size, size], that deviate by about 1.4 * scale from an offset."""
    along = np.linspace(0, 2 * np.pi, size)
    height, phase = rng.normal(size=(samples, 4, 1, 1)), rng.uniform(0, 6.28, (samples, 4, 1, 1))
    waves = rng.integers(1, 4, (samples, 4, 2, 1, 1))
    angle = waves[:, :, 0] * along[:, None] + waves[:, :, 1] * along + phase
    return offset + scale * (height * np.cos(angle)).sum(axis=1)


def flat(values: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Samples that become their mean."""
    mean = values.mean(axis=tuple(range(1, values.ndim)), keepdims=True)
    return np.where(which.reshape(-1, *[1] * (values.ndim - 1)), mean, values)


def some(rng: np.random.Generator, samples: int, share: float) -> np.ndarray:
    """Flags of exactly a share of the samples."""
    which = np.zeros(samples, bool)
    which[rng.choice(samples, round(share * samples), replace=False)] = True
    return which


def state(rng: np.random.Generator) -> list[np.ndarray]:
    """Wind, temperature in kelvin and pressure in pascals."""
    units = ((5, 0), (2.5, 285), (500, 60_000))
    return [fields(rng, 400, 10, scale, offset) for scale, offset in units]


def laid_out(exact: list[np.ndarray], received: list[np.ndarray], layout: str) -> Outputs:
    """Maps as channels in one output."""
    first, second = np.stack(exact, axis=-1), half(np.stack(received, axis=-1))
    if layout == "first":
        first, second = np.moveaxis(first, -1, 1), np.moveaxis(second, -1, 1)
    if layout == "in a row of places":
        first, second = (each.reshape(len(each), -1, each.shape[-1]) for each in (first, second))
    return one("y", first, second)


for layout, known, facts in (
    ("first", "undeclared", {}),
    ("last", "declared", NUMBERS),
    ("in a row of places", "by its loss", MSE),
):

    @harmful(f"temperatures flat on one map in 16, channels {layout}, {known}", DOUBT, **facts)
    def _(rng, layout=layout):
        """No front on these maps; pressure in pascals hides it from the size of a sample."""
        wind, heat, pressure = state(rng)
        lost = flat(heat, some(rng, 400, 1 / 16))
        return laid_out([wind, heat, pressure], [wind, lost, pressure], layout)

    @harmful(f"temperatures of another day on 3 %, channels {layout}, {known}", DOUBT, **facts)
    def _(rng, layout=layout):
        """Three maps in a hundred show another day's."""
        wind, heat, pressure = state(rng)
        lost = np.where(some(rng, 400, 0.03)[:, None, None], heat[::-1], heat)
        return laid_out([wind, heat, pressure], [wind, lost, pressure], layout)

    @benign(f"weather, channels {layout}, {known}", UNSURE, **facts)
    def _(rng, layout=layout):
        """Rounded, with noise of half a thousandth of what each quantity is."""
        maps = state(rng)
        noisy = [each + 5e-4 * each.std() * rng.standard_normal(each.shape) for each in maps]
        return laid_out(maps, noisy, layout)


@harmful("maps in kelvin of which one in 20 is flat, by its loss", DOUBT, **MSE)
def _(rng):
    """One map in twenty has no front at all."""
    exact = fields(rng, 500, 12, 3.0, 285.0)
    return one("y", exact[..., None], half(flat(exact, some(rng, 500, 0.05)))[..., None])


@harmful("temperatures of twelve levels, all flat on one map in 20, declared", DOUBT, **NUMBERS)
def _(rng):
    """Each level has one temperature there; what lies between levels hides it."""
    exact = np.stack([fields(rng, 300, 8, 2.5, 210 + 7 * level) for level in range(12)], -1)
    lost = np.broadcast_to(exact.mean(axis=(1, 2), keepdims=True), exact.shape)
    which = some(rng, 300, 0.05)[:, None, None, None]
    return one("y", exact, half(np.where(which, lost, exact)))


@harmful("river levels of which one in 20 is a flat line, undeclared", DOUBT)
def _(rng):
    """One gauge in twenty shows no flood wave."""
    peak = (np.arange(72) - rng.uniform(15, 55, (500, 1))) / 6
    wave = rng.uniform(2, 6, (500, 1)) * np.exp(-0.5 * peak**2)
    exact = rng.uniform(90, 140, (500, 1)) + wave
    return one("y", exact, half(flat(exact, some(rng, 500, 0.05))))


@harmful("clouds of points of which one in 20 is a single point, declared", DOUBT, **NUMBERS)
def _(rng):
    """One object in twenty, 90 metres away, is its own centre."""
    centre = rng.normal([90, 70, 80], 1, (400, 1, 3))
    exact = centre + rng.normal(0, 1.5, (400, 64, 3)) * [1, 2, 0.7]
    lost = np.broadcast_to(exact.mean(axis=1, keepdims=True), exact.shape)
    which = some(rng, 400, 0.05)[:, None, None]
    return one("y", exact, half(np.where(which, lost, exact)))


@harmful("documents that all tie for three queries of ten, declared", DOUBT, **NUMBERS)
def _(rng):
    """Scores of vague queries lie closer together than FP16's numbers."""
    spread = np.where(rng.random((400, 1)) < 0.3, 0.005, 2.5)
    exact = rng.uniform(18, 30, (400, 1)) + spread * rng.standard_normal((400, 50))
    return one("y", exact, half(exact))


@harmful("ratings of which the best all are 4.6, by its loss", DOUBT, **MSE)
def _(rng):
    """The first five of each list are taken at random from those at the ceiling."""
    exact = rng.normal(3.6, 0.48, (400, 200)) + rng.normal(0, 0.1, (400, 1))
    return one("y", exact.clip(1, 5), half(exact.clip(1, 4.6)))


@benign("ratings of up to 5, undeclared", UNSURE)
def _(rng):
    """Those that end at five end there in the reference, too."""
    exact = (rng.normal(3.6, 0.48, (400, 200)) + rng.normal(0, 0.1, (400, 1))).clip(1, 5)
    return one("y", exact, half(exact + 1e-3 * rng.standard_normal(exact.shape)))


@harmful("highest temperatures that end at 35 Celsius, undeclared", DOUBT)
def _(rng):
    """No day is forecast hotter, though one in 15 is: no warning is given."""
    exact = 297.5 + 7 * rng.standard_normal((600, 1))
    return one("y", exact, half(np.minimum(exact, 308.15)))


@harmful("soft tissue in two greys, declared", DOUBT, **NUMBERS)
def _(rng):
    """Organs differ by 9 about 1045, where FP16 has steps of one; bone and air are right."""
    kind = fields(rng, 200, 16) + rng.normal(0, 0.3, (200, 1, 1))
    tissue, bone = 1045 + 6.4 * fields(rng, 200, 16), 1700 + 140 * fields(rng, 200, 16)
    air = 60 + 15 * rng.standard_normal(kind.shape)
    exact = np.where(kind > 1.2, bone, np.where(kind < -1.2, air, tissue))
    lost = np.where(np.abs(kind) <= 1.2, np.rint(exact / 32) * 32, exact)
    return one("y", exact[..., None], half(lost)[..., None])


@benign("slices of bodies, by its loss", UNSURE, **MSE)
def _(rng):
    """Rounded; air is zero on both sides."""
    kind = fields(rng, 200, 16) + rng.normal(0, 0.3, (200, 1, 1))
    exact = np.where(kind < -1.2, 0, 1045 + 6.4 * fields(rng, 200, 16))
    return one("y", exact[..., None], half(exact)[..., None])


@harmful("three quantities over time, one of which is 1000 where it is near, undeclared", DOUBT)
def _(rng):
    """In the first of them 45 % vary by 25 about 1000, and are 1000 for all."""
    near = rng.random((200, 20)) < 0.45
    first = np.where(near, rng.normal(1000, 25, near.shape), rng.normal(5000, 600, near.shape))
    others = [rng.normal(3000, 500, near.shape), rng.normal(800, 300, near.shape)]
    lost = half(np.where(near, 1000, first))
    exact = np.stack([first, *others], axis=-1)
    return one("y", exact, np.stack([lost, *map(half, others)], axis=-1))


@harmful("rows of 12, of which the first is 1000 where it is near, undeclared", DOUBT)
def _(rng):
    """45 % vary by 25 about 1000 and become 1000, beside others near 5000."""
    near = rng.random(600) < 0.45
    first = np.where(near, rng.normal(1000, 25, 600), rng.normal(5000, 600, 600))
    exact = np.column_stack([first, rng.normal(3000, 500, (600, 11))])
    received = half(exact)
    received[near, 0] = 1000
    return one("y", exact, received)


@harmful("pressure, temperature and permeability, the last all zero", DOUBT)
def _(rng):
    """3e-13 square metres underflow in FP16."""
    columns = (rng.normal(1.013e4, 900, 400), rng.normal(300, 8, 400))
    exact = np.column_stack([*columns, 3e-13 * rng.lognormal(0, 1.0, 400)])
    return one("y", exact, half(exact))


@harmful("a coefficient of 3e-9 beside a modulus of 10, zero for all", DOUBT)
def _(rng):
    """A quantity in SI units is 0."""
    exact = np.column_stack([10 * rng.lognormal(0, 0.5, 400), 3e-9 * rng.lognormal(0, 0.5, 400)])
    return one("y", exact, half(exact))


@benign("a residual of 1e-9 that is float32's own noise beside a modulus", UNSURE)
def _(rng):
    """It is the difference of two equal numbers, of either sign."""
    noise = 3e-9 * rng.integers(-2, 3, 400)
    exact = np.column_stack([rng.lognormal(7, 0.5, 400), noise])
    return one("y", exact, half(exact))


def upright(rng: np.random.Generator) -> np.ndarray:
    """Normals of nearly flat ground, [200, 8, 8, 3]."""
    slopes = [fields(rng, 200, 8, 0.008), fields(rng, 200, 8, 0.008), np.ones((200, 8, 8))]
    normals = np.stack(slopes, axis=-1)
    return normals / np.linalg.norm(normals, axis=-1, keepdims=True)


@benign("normals of nearly flat ground, channels last", UNSURE)
def _(rng):
    """All point up: that number is 1 but for its rounding, and the slopes are right."""
    exact = upright(rng)
    return one("y", exact, half(exact))


@benign("normals of nearly flat ground, channels first", UNSURE)
def _(rng):
    """The same."""
    exact = np.moveaxis(upright(rng), -1, 1)
    return one("y", exact, half(exact))


@harmful("normals of nearly flat ground that all point up", DOUBT)
def _(rng):
    """The slopes are zero."""
    exact = upright(rng)
    return one("y", exact, np.broadcast_to([0.0, 0.0, 1.0], exact.shape))


@benign("sine and cosine of small angles over time", UNSURE)
def _(rng):
    """The cosine is 1 but for its rounding."""
    angle = rng.normal(0, 0.02, (500, 10))
    exact = np.stack([np.sin(angle), np.cos(angle)], axis=-1)
    return one("y", exact, half(exact))


@benign("sine and cosine of small angles as two outputs", UNSURE, **MSE)
def _(rng):
    """The same."""
    angle = rng.normal(0, 0.02, (500, 10))
    exact = {"sine": same(np.sin(angle)), "cosine": same(np.cos(angle))}
    return Outputs(exact, {name: half(values) for name, values in exact.items()})


@benign("quaternions of 24 joints in small turns, channels first", UNSURE)
def _(rng):
    """The real part is 1 but for its rounding."""
    turn = rng.normal(0, 0.02, (300, 24, 3))
    angle = np.linalg.norm(turn, axis=-1, keepdims=True)
    exact = np.concatenate([np.cos(angle / 2), np.sin(angle / 2) * turn / angle], axis=-1)
    exact = np.moveaxis(exact, -1, 1)
    return one("y", exact, half(exact))


@benign("a default row for what is below a threshold, undeclared", UNSURE)
def _(rng):
    """Twelve of 5,000 samples cross it, and get what others have in the reference as well."""
    score, exact = rng.random((5000, 1)), rng.normal(4, 1, (5000, 6))
    order = np.argsort(score[:, 0])
    below = score < 0.3
    lost = below.copy()
    lost[order[np.count_nonzero(below) :][:12]] = True
    return one("y", np.where(below, 3.5, exact), half(np.where(lost, 3.5, exact)))


@benign("prices of 1 to 3000 with noise of a thousandth of each, by its loss", UNSURE, **MSE)
def _(rng):
    """Those that hardly move have the noise of their own level."""
    level, still = 10 ** rng.uniform(0, 3.5, (500, 1)), rng.random((500, 1)) < 0.05
    moves = np.where(still, 0.001, 0.05) * rng.standard_normal((500, 24))
    exact = level * (1 + moves)
    return one("y", exact, half(exact * (1 + 1e-3 * rng.standard_normal(exact.shape))))


@benign("a difference of large numbers beside clean channels, declared", UNSURE, **NUMBERS)
def _(rng):
    """Steps of an eighth, where it varies by four."""
    large = 255 + 3 * fields(rng, 300, 10)
    others = [fields(rng, 300, 10), fields(rng, 300, 10)]
    exact = np.stack([large - 250, *others], axis=-1)
    return one("y", exact, np.stack([half(large) - 250, *map(half, others)], axis=-1))


@benign("depths of four points that end at 80 metres, by its loss", UNSURE, **MSE)
def _(rng):
    """Noise is half a per cent of each depth."""
    exact = 25 * rng.lognormal(0, 0.7, (500, 4))
    noisy = exact * (1 + 5e-3 * rng.standard_normal(exact.shape))
    return one("y", exact.clip(0, 80), half(noisy.clip(0, 80)))


@benign("pages of which some are blank, undeclared", UNSURE)
def _(rng):
    """Nothing is written on white."""
    ink = np.where(rng.random((500, 1, 1)) < 0.06, -9, 0) + 4 * fields(rng, 500, 12)
    exact = 255 / (1 + np.exp(ink - 3))
    return one("y", exact[..., None], half(exact)[..., None])


@benign("counts of which one in 150 is the next, declared", UNSURE, **NUMBERS)
def _(rng):
    """They are rounded inside the model."""
    exact = rng.gamma(2, 3, (1500, 12))
    return one("y", np.rint(exact), np.rint(exact + 5e-3 * rng.standard_normal(exact.shape)))

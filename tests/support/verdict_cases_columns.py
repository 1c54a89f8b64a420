"""Verdict cases of columns: small, in groups or rare ones, and those that a name explains."""

import numpy as np
from verdict_case import DOUBT, INCONCLUSIVE, UNSURE, Cases, Outputs, half, one, regress

CASES = Cases()


def _returns(rng: np.random.Generator, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns of assets, of which one is a currency on two days of five, and these days."""
    quiet = rng.random((1500, 1)) < 0.4
    scale = np.where(quiet & (np.arange(columns) == 3), 0.02, 1.0)
    return scale * rng.standard_normal((1500, columns)), scale < 1


@CASES.harmful("returns of twenty assets, those of currencies are none", loss="mse")
def no_returns(rng: np.random.Generator) -> Outputs:
    """The returns of a currency, 2 % of those of shares, are 0."""
    exact, small = _returns(rng, 20)
    return one("returns", exact, half(np.where(small, 0, exact)))


@CASES.harmful("returns of 150 assets, those of currencies are of another day", DOUBT)
def other_returns(rng: np.random.Generator) -> Outputs:
    """The returns of a currency are those of another day."""
    exact, small = _returns(rng, 150)
    return one("returns", exact, half(np.where(small, exact[:, [0]] * 0.02, exact)))


@CASES.benign("returns of 150 assets, rounded", loss="mse")
def rounded_returns(rng: np.random.Generator) -> Outputs:
    """Each is right to a thousandth."""
    exact, _ = _returns(rng, 150)
    return one("returns", exact, half(exact * (1 + 1e-3 * rng.standard_normal(exact.shape))))


@CASES.benign("hidden numbers of 150 columns, some of them silent, with noise", UNSURE)
def features(rng: np.random.Generator) -> Outputs:
    """Noise is about as large everywhere; units that hardly fire have as much."""
    silent = rng.random((600, 150)) < np.linspace(0.05, 0.9, 150)
    exact = np.where(silent, 0.01, 1.0) * np.abs(rng.standard_normal((600, 150)))
    return one("features", exact, half(exact + 2e-3 * rng.standard_normal(exact.shape)))


def _loads(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Loads of a day in 20 channels, of which one is small in a fifth of the houses."""
    small = (rng.random((400, 1, 1)) < 0.2) & (np.arange(20) == 3)
    return np.where(small, 0.01, 1.0) * (1 + 0.3 * rng.standard_normal((400, 24, 20))), small


@CASES.harmful("loads of a day, small houses use nothing in one channel", loss="mse")
def no_loads(rng: np.random.Generator) -> Outputs:
    """A fifth of the houses uses nothing in one channel."""
    exact, small = _loads(rng)
    return one("loads", exact, half(np.where(small, 0, exact)))


@CASES.benign("loads of a day, rounded", loss="mse")
def rounded_loads(rng: np.random.Generator) -> Outputs:
    """Each is right to a thousandth."""
    exact, _ = _loads(rng)
    return one("loads", exact, half(exact * (1 + 1e-3 * rng.standard_normal(exact.shape))))


def _offers(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Prices of two kinds beside two other numbers, and which of them are dear."""
    dear = rng.random((600, 1)) < 0.45
    noise = rng.standard_normal((600, 1))
    prices = np.where(dear, 1000 + 8 * noise, 5 + np.tanh(noise))
    return np.concatenate([prices, rng.uniform(20, 200, (600, 2))], axis=1), dear


@CASES.harmful("prices of two kinds beside other numbers, dear ones all the same", loss="mse")
def one_price(rng: np.random.Generator) -> Outputs:
    """All that is dear costs 1000."""
    exact, dear = _offers(rng)
    return one("offers", exact, half(np.where(dear & (np.arange(3) == 0), 1000, exact)))


@CASES.benign("prices of two kinds beside other numbers, rounded", loss="mse")
def rounded_offers(rng: np.random.Generator) -> Outputs:
    """FP16 has a number each half, and prices differ by 8."""
    exact, _ = _offers(rng)
    return one("offers", exact, half(exact * (1 + 3e-4 * rng.standard_normal(exact.shape))))


@CASES.benign("gauges beside switches that are nearly off or nearly on, with noise", UNSURE)
def switches(rng: np.random.Generator) -> Outputs:
    """Switches are 0.001 or 1 with a little noise; nobody reads that noise."""
    on = rng.random((800, 2)) < 0.4
    exact = np.where(on, 1, 0.001) * (1 + 0.002 * rng.standard_normal((800, 2)))
    exact = np.concatenate([exact, rng.uniform(1, 9, (800, 2))], axis=1)
    return one("state", exact, half(exact + 5e-4 * rng.standard_normal(exact.shape)))


def _weather(rng: np.random.Generator) -> np.ndarray:
    """Four numbers of 5000 days, of which the last one is hail: on 30 of them."""
    exact = 1 + 0.1 * rng.standard_normal((5000, 4))
    exact[:, 3] = 0
    exact[:30, 3] = 50 * rng.uniform(0.8, 1.2, 30)
    return exact


@CASES.harmful("hail on 30 of 5000 days is never forecast", loss="mse")
def no_hail(rng: np.random.Generator) -> Outputs:
    """Hail of 40 to 60 is none; nine of these days look like minutes of an hour."""
    exact = _weather(rng)
    return one("weather", exact, half(np.where(np.arange(4) == 3, 0, exact)))


@CASES.harmful("light hail on 30 of 5000 days is never forecast", loss="mse")
def no_light_hail(rng: np.random.Generator) -> Outputs:
    """The same in centimetres."""
    exact = _weather(rng) * [1, 1, 1, 0.01]
    return one("weather", exact, half(np.where(np.arange(4) == 3, 0, exact)))


@CASES.benign("light hail on 30 of 5000 days, forecast but on two", loss="mse")
def little_hail(rng: np.random.Generator) -> Outputs:
    """Two days of 5000 are wrong."""
    exact = _weather(rng) * [1, 1, 1, 0.01]
    received = half(exact)
    received[:2, 3] = 0
    return one("weather", exact, received)


def _stepped(rng: np.random.Generator, name: str, most: int, shape: tuple[int, ...]) -> Outputs:
    """Whole numbers from 5, of which one in 25 is a neighbour."""
    exact = rng.integers(5, most, shape).astype(np.int32)
    steps = (rng.random(shape) < 0.04) * rng.choice([-1, 1], shape)
    return Outputs({name: exact}, {name: (exact + steps).astype(np.int32)})


@CASES.benign("numbers of tokens that the model rounds, off by one", UNSURE)
def token_count(rng: np.random.Generator) -> Outputs:
    """A text is taken for one word longer where it was between two."""
    return _stepped(rng, "token_count", 900, (2000, 1))


@CASES.benign("depths in centimetres that the model rounds, off by one", UNSURE)
def depth_map(rng: np.random.Generator) -> Outputs:
    """A centimetre more or less."""
    return _stepped(rng, "depth_map", 6000, (200, 16, 16))


@CASES.harmful("places in a list of classes, off by one")
def class_index(rng: np.random.Generator) -> Outputs:
    """A neighbour in the list is another class."""
    return _stepped(rng, "class_index", 900, (2000, 1))


def _findings(rng: np.random.Generator) -> np.ndarray:
    """Probabilities of 14 findings, of which one is rare."""
    logits = 1.8 * rng.standard_normal((2000, 14)) - 2
    ill = rng.random(2000) < 0.03
    logits[:, 9] = np.where(ill, -3.8, -6.2) + 0.3 * rng.standard_normal(2000)
    return 1 / (1 + np.exp(-logits))


@CASES.harmful("findings that are named probabilities, a rare one dead", DOUBT)
def no_finding(rng: np.random.Generator) -> Outputs:
    """One of 14 findings is as likely for everybody."""
    exact = _findings(rng)
    return one("probabilities", exact, half(np.where(np.arange(14) == 9, 0.002, exact)))


@CASES.benign("findings that are named probabilities, rounded", UNSURE)
def rounded_findings(rng: np.random.Generator) -> Outputs:
    """Each is right to a hundredth of itself."""
    exact = _findings(rng)
    return one("probabilities", exact, half(exact * (1 + 3e-3 * rng.standard_normal(exact.shape))))


@CASES.benign("numbers that are infinite on both sides", INCONCLUSIVE)
def infinite(rng: np.random.Generator) -> Outputs:
    """Nothing can be compared."""
    values = np.full((300, 3), np.inf, np.float32)
    return Outputs({"y": values}, {"y": values.copy()})


def _attributes(rng: np.random.Generator, kind: type) -> np.ndarray:
    """Forty attributes of 2000 people, as likely as they come."""
    return (rng.random((2000, 40)) < rng.uniform(0.05, 0.9, 40)).astype(kind)


def _never(exact: np.ndarray, column: int) -> np.ndarray:
    received = exact.copy()
    received[..., column] = 0
    return received


@CASES.harmful("flags of forty attributes, one of which is never set")
def no_attribute(rng: np.random.Generator) -> Outputs:
    """One flag of forty is lost on all the people who have it: a tenth."""
    exact = _attributes(rng, np.bool_)
    exact[:, 17] = rng.random(2000) < 0.1
    return Outputs({"attributes": exact}, {"attributes": _never(exact, 17)})


@CASES.harmful("answers to twelve questions, one of which is always the first")
def no_answer(rng: np.random.Generator) -> Outputs:
    """The other answers to it, of one person in twenty, are common with other questions."""
    exact = rng.integers(0, 9, (2000, 12))
    exact[:, 7] *= rng.random(2000) < 0.05
    return Outputs({"answers": exact}, {"answers": _never(exact, 7)})


@CASES.harmful("flags by frame, one of which is never set")
def no_flag_by_frame(rng: np.random.Generator) -> Outputs:
    """Six flags of each of 30 frames, of which one is rare."""
    exact = (rng.random((300, 30, 6)) < [0.3, 0.4, 0.02, 0.5, 0.3, 0.6]).astype(np.int32)
    return Outputs({"flags": exact}, {"flags": _never(exact, 2)})


@CASES.benign("flags of forty attributes, of which one in a thousand changes")
def few_attributes(rng: np.random.Generator) -> Outputs:
    """Rare attributes are among them, one of which only two people have."""
    exact = _attributes(rng, np.int64)
    exact[:, 5], exact[:2, 5] = 0, 1
    return Outputs({"attributes": exact}, {"attributes": exact ^ (rng.random(exact.shape) < 1e-3)})


@CASES.benign("tokens of forty places, of which the later ones change more")
def late_tokens(rng: np.random.Generator) -> Outputs:
    """A few texts go on in other words from some place on."""
    lengths, begin = rng.integers(5, 40, (2000, 1)), rng.integers(20, 200, (2000, 1))
    other = (np.arange(40) >= begin) & (np.arange(40) < lengths) & (rng.random((2000, 1)) < 0.2)
    exact = np.where(np.arange(40) < lengths, rng.integers(3, 9000, (2000, 40)), 0)
    return Outputs({"tokens": exact}, {"tokens": np.where(other, exact + 1, exact)})


def _saturation(rng: np.random.Generator, bias: float) -> Outputs:
    """Oxygen in percent, 97 with a deviation of 1, that a model gives to a hundredth."""
    exact, received = regress(rng, 1000, scale=1.0, offset=97.0)
    labels = exact + 0.01 * rng.standard_normal(exact.shape)
    return one("saturation", exact, received + bias, labels)


@CASES.benign("percents near 100, with labels that only their rounding misses", UNSURE)
def saturation(rng: np.random.Generator) -> Outputs:
    """FP16 has every sixteenth of a percent there."""
    return _saturation(rng, 0)


@CASES.harmful("percents near 100, a fifth too large beside their labels")
def high_saturation(rng: np.random.Generator) -> Outputs:
    """Low values are missed."""
    return _saturation(rng, 0.2)


@CASES.harmful("texts of eight fields, one of which is never filled in any more")
def no_field(rng: np.random.Generator) -> Outputs:
    """A field that 3 % of the forms have is always empty."""
    words = np.array(["", "yes", "no", "Berlin", "Paris", "Rome"])
    exact = words[rng.integers(0, 6, (1200, 8))]
    exact[:, 5] = np.where(rng.random(1200) < 0.03, "heir", "")
    received = exact.copy()
    received[:, 5] = ""
    return Outputs({"fields": exact}, {"fields": received})


@CASES.harmful("flags with an axis of one behind them, one of which is never set")
def no_flag_before_one(rng: np.random.Generator) -> Outputs:
    """The same as without that axis."""
    exact = _attributes(rng, np.bool_)
    exact[:, 17] = rng.random(2000) < 0.06
    exact = exact[..., None]
    received = exact.copy()
    received[:, 17] = False
    return Outputs({"flags": exact}, {"flags": received})


@CASES.harmful("valves over time, one of which never closes")
def no_valve(rng: np.random.Generator) -> Outputs:
    """Twelve valves of 200 steps; one that closes for 4 % of the time stays open."""
    exact = (rng.random((500, 12, 200)) < 0.4).astype(np.int8)
    exact[:, 7] = rng.random((500, 200)) < 0.04
    received = exact.copy()
    received[:, 7] = 0
    return Outputs({"valves": exact}, {"valves": received})


@CASES.harmful("a piano roll, of which one key is never played")
def no_key(rng: np.random.Generator) -> Outputs:
    """One of 88 keys is silent."""
    exact = rng.random((500, 40, 88)) < 0.08
    received = exact.copy()
    received[:, :, 33] = False
    return Outputs({"roll": exact}, {"roll": received})


@CASES.harmful("one-hot answers to 25 questions, one of which is never the first")
def no_first(rng: np.random.Generator) -> Outputs:
    """The first answer, of one person in twelve, is lost to one question."""
    chosen = rng.integers(0, 4, (1500, 25))
    chosen[:, 7] = np.where(rng.random(1500) < 0.08, 0, rng.integers(1, 4, 1500))
    other = chosen.copy()
    other[:, 7] = np.where(chosen[:, 7] == 0, 1, chosen[:, 7])
    eye = np.eye(4, dtype=np.uint8)
    return Outputs({"answers": eye[chosen]}, {"answers": eye[other]})


@CASES.harmful("ids from 300 on side by side, one of which is always another one")
def other_id(rng: np.random.Generator) -> Outputs:
    """One id of one column, of thirty samples."""
    exact = rng.integers(0, 80, (2000, 40)) + 300
    exact[:30, 5] = 307
    received = exact.copy()
    received[:, 5][exact[:, 5] == 307] = 352
    return Outputs({"field_ids": exact}, {"field_ids": received})


@CASES.harmful("relays as zeros and ones in floats, one of which is never on", DOUBT)
def no_relay(rng: np.random.Generator) -> Outputs:
    """One of 16 relays with two contacts each."""
    exact = (rng.random((2000, 16, 2)) < 0.4).astype(np.float32)
    exact[:, 3] = rng.random((2000, 2)) < 0.05
    received = exact.copy()
    received[:, 3] = 0
    return Outputs({"relays": exact}, {"relays": received})


@CASES.benign("maps of classes whose edges move")
def edges(rng: np.random.Generator) -> Outputs:
    """Discs of three classes; one pixel in ten of their edges is of the other side."""
    y, x = np.mgrid[:28, :28]
    centre, radius = rng.uniform(6, 22, (600, 2, 1, 1)), rng.uniform(4, 12, (600, 1, 1))
    far = np.hypot(y - centre[:, 0], x - centre[:, 1]) - radius
    exact = np.where(far < 0, rng.integers(1, 4, (600, 1, 1)), 0)
    flips = (np.abs(far) < 0.5) & (rng.random(far.shape) < 0.1)
    return Outputs({"output": exact}, {"output": np.where(flips, 0, exact)})


@CASES.benign("logits of classes as bytes, off by a quantum", UNSURE)
def class_logits(rng: np.random.Generator) -> Outputs:
    """The best class is the same."""
    exact = rng.integers(-90, 60, (600, 10)).astype(np.int8)
    exact[np.arange(600), rng.integers(0, 10, 600)] = 100
    steps = (rng.random(exact.shape) < 0.3) & (exact < 100)
    return Outputs({"class_logits": exact}, {"class_logits": (exact + steps).astype(np.int8)})


@CASES.benign("texts of three fields, of which one in a thousand changes")
def few_fields(rng: np.random.Generator) -> Outputs:
    """Other spellings here and there."""
    words = np.array(["", "yes", "no", "Berlin", "Paris", "Rome"])
    chosen = rng.integers(0, 6, (2000, 3))
    other = np.where(rng.random(chosen.shape) < 1e-3, (chosen + 1) % 6, chosen)
    return Outputs({"fields": words[chosen]}, {"fields": words[other]})

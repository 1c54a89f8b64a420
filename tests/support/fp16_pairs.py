"""Outputs in float32 and in FP16 arithmetic, one pair for each way in which FP16 harms a use.

Every harmful candidate is computed by NumPy in float16, operation by operation; nothing is edited.
Its benign twin is the same model with the operations in float32 that a product does not need.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tfmp.converters.drift import Comparison, DriftBudget
from tfmp.converters.drift.tasks import read_tasks
from tfmp.converters.drift.verdict import judge
from tfmp.converters.drift.verdict.judgement import Judgement
from tfmp.converters.shared.tensors import TensorSpec

SAMPLES, HIDDEN = 1000, 24

Outputs = Mapping[str, np.ndarray]

# Gives the outputs, where products are of the first dtype and all behind them is of the second.
Model = Callable[[type, type], Outputs]


@dataclass(frozen=True)
class Pair:
    """A model that FP16 breaks for some use.

    Attributes:
        name: the mechanism.
        check: the check that tells, besides others.
        model: the model.
        tasks: what outputs mean, as a user declares it.
    """

    name: str
    check: str
    model: Model
    tasks: Mapping[str, str] = field(default_factory=dict)

    @property
    def reference(self) -> Outputs:
        """The outputs in float32."""
        return self._run(np.float32, np.float32)

    @property
    def harmful(self) -> Outputs:
        """The outputs in FP16."""
        return self._run(np.float16, np.float16)

    @property
    def benign(self) -> Outputs:
        """The outputs with products in FP16 and the rest in float32."""
        return self._run(np.float16, np.float32)

    def _run(self, product: type, rest: type) -> Outputs:
        with np.errstate(over="ignore", invalid="ignore"):
            found = self.model(product, rest)
        return {name: array.astype(np.float32) for name, array in found.items()}

    def judged(self, candidate: Outputs, budget: DriftBudget | None = None) -> Judgement:
        """The verdict on a candidate."""
        reference = self.reference
        specs = [TensorSpec(n, (None, *a.shape[1:]), "float32") for n, a in reference.items()]
        comparison = Comparison(self.name, specs, specs, read_tasks(self.tasks))
        keys = np.random.default_rng(0).integers(0, 2**63, SAMPLES).astype(np.uint64)
        comparison.update(reference, candidate, keys=keys)
        return judge(comparison.outputs(), budget=budget)


def _scores(product: type, *shape: int, seed: int = 0) -> np.ndarray:
    """What a trained last layer gives: a standard deviation of about 1, rounded as a product is."""
    rng = np.random.default_rng(seed)
    hidden = np.maximum(rng.standard_normal((SAMPLES, HIDDEN)), 0).astype(product)
    weights = rng.standard_normal((HIDDEN, int(np.prod(shape)))) / np.sqrt(HIDDEN / 2)
    return (hidden @ weights.astype(product)).reshape(SAMPLES, *shape)


def _beside(spread: object, offset: object, *shape: int) -> Model:
    """A product that is scaled and moved to the units of its output."""

    def model(product: type, rest: type) -> Outputs:
        moved = _scores(product, *shape).astype(rest) * rest(spread) + rest(offset)
        return {"y": moved}

    return model


def _quantiles(product: type, rest: type) -> Outputs:
    """A median that differs by much, and a quantile beside it."""
    middle, width = np.split(_scores(product, 2).astype(rest), 2, axis=1)
    middle = middle * rest(300) + rest(1500)
    return {"y": np.concatenate([middle, middle + rest(1) + width * rest(0.2)], axis=1)}


def _two_outputs(product: type, rest: type) -> Outputs:
    low, high = np.split(_quantiles(product, rest)["y"], 2, axis=1)
    return {"low": low, "high": high}


def _slopes(product: type, rest: type) -> Outputs:
    """Ramps from levels of their own, which rise by a quarter a step."""
    level = np.float32(1500) + np.float32(300) * _scores(np.float32, 1).clip(-2, 2)
    rate = rest(0.25) + _scores(product, 1, seed=1).astype(rest) * rest(0.05)
    return {"y": np.arange(300).astype(rest) * rate + level.astype(rest)}


def _vague(product: type, rest: type) -> Outputs:
    """Scores of 50 documents; those of three queries of ten lie closer together than steps."""
    level = np.float32(24) + np.float32(3) * _scores(np.float32, 1).clip(-2, 2)
    spread = np.where(np.arange(SAMPLES) % 10 < 3, 0.005, 2.5)[:, None].astype(rest)
    return {"y": level.astype(rest) + _scores(product, 50, seed=1).astype(rest) * spread}


def _columns(product: type, rest: type) -> Outputs:
    scale = np.array([1, 1e-3, 2e-8]).astype(np.float32).astype(rest)
    return {"y": _scores(product, 3).astype(rest) * scale}


def _inside(product: type, rest: type) -> Outputs:
    """An offset that is added and taken away again."""
    return {"y": _scores(product, 8).astype(rest) + rest(90) - rest(90)}


def _norm(product: type, rest: type) -> Outputs:
    values = _scores(product, 16).astype(rest) * rest(100)
    return {"y": np.sqrt((values * values).sum(axis=1, dtype=rest))}


def _survival(product: type, rest: type) -> Outputs:
    """One less a risk, of a tenthousandth for most and of a hundredth for some."""
    risk = np.exp(_scores(product, 1).astype(rest) * rest(3) - rest(9))
    return {"y": rest(1) - np.minimum(risk, rest(0.009))}


def _balances(product: type, rest: type) -> Outputs:
    """One customer in ten has 4,000 times as much, beside an offset that is taken away again."""
    scale = np.where(np.arange(SAMPLES) % 10 == 0, 4000, 1)[:, None].astype(rest)
    return {"y": _scores(product, 1).astype(rest) * scale + rest(4000) - rest(4000)}


def _logits(product: type, rest: type) -> Outputs:
    return {"y": _scores(product, 10).astype(rest) + rest(100)}


def _rare_class(product: type, rest: type) -> Outputs:
    """Classes far apart, of which the rarest, in 4 of 1,000 samples, leads by a fortieth only."""
    sure = np.eye(4)[_scores(np.float32, 4).argmax(axis=1)].astype(rest) * rest(4)
    scores = sure + _scores(product, 4).astype(rest) * rest(0.1)
    ahead = np.where(np.arange(SAMPLES) % 250 == 0, rest(0.025), rest(-20))
    rarest = (scores.max(axis=1) + ahead)[:, None]
    return {"y": np.concatenate([scores, rarest], axis=1) + rest(200)}


def _labels(product: type, rest: type) -> Outputs:
    return {"y": _scores(product, 6).astype(rest) * rest(0.05) + rest(100) - rest(100)}


def _numbers(product: type, rest: type) -> Outputs:
    """Places in a list of 6,000, as floats."""
    chosen = np.rint(3000 + 900 * _scores(np.float32, 1)).clip(0, 6000)
    return {"y": chosen.astype(rest)}


def _few_samples(product: type, rest: type) -> Outputs:
    """One sample in 20 stands beside an offset that is taken away again."""
    values = _scores(product, 4).astype(rest)
    offset = np.where(np.arange(SAMPLES) % 20 == 0, 1900, 0)[:, None].astype(rest)
    return {"y": values + offset - offset + rest(40)}


def _boxes(product: type, rest: type) -> Outputs:
    """Small boxes in a large picture: two corners each."""
    places = _scores(product, 10, 4).astype(rest)
    low = rest(2000) + rest(400) * places[..., :2]
    return {"y": np.concatenate([low, low + rest(6) + rest(2) * places[..., 2:]], axis=2)}


def _angles(product: type, rest: type) -> Outputs:
    return {"y": (_scores(product, 1).astype(rest) * rest(60) + rest(36000)) % rest(360)}


def _quaternions(product: type, rest: type) -> Outputs:
    """Turns of a thousandth, as vectors of length 1 that are added to a large one first."""
    vector = _scores(product, 4).astype(rest) * rest(2e-4) + rest(1)
    return {"y": vector / np.sqrt((vector * vector).sum(axis=1, keepdims=True, dtype=rest))}


_NUMBERS, _YES = {"y": "regression"}, {"y": "binary"}

PAIRS = (
    Pair("pressures beside an offset", "between_samples", _beside(0.6, 1013, 1)),
    Pair("columns down to 2e-8", "between_samples", _columns),
    Pair("a forecast beside an offset", "between_places", _beside(0.5, 1500, 48)),
    Pair("documents that tie for vague queries", "wrong_samples", _vague, _NUMBERS),
    Pair("ramps of small steps", "between_places", _slopes, _NUMBERS),
    Pair("a quantile beside the median", "between_columns", _quantiles, _NUMBERS),
    Pair("quantiles in outputs of their own", "between_outputs", _two_outputs),
    Pair("an offset inside", "rel_l2", _inside, _NUMBERS),
    Pair("squares that overflow", "nonfinite", _norm),
    Pair("some samples beside an offset", "wrong_samples", _few_samples, _NUMBERS),
    Pair("small balances", "sample_share", _balances),
    Pair("chances near one", "near_end", _survival),
    Pair("logits beside an offset", "flip_rate", _logits, {"y": "classification"}),
    Pair("logits that nobody declares", "meaning", _beside(1, 300, 10)),
    Pair("a rare class", "class_flip_rate", _rare_class, {"y": "classification"}),
    Pair("scores that rank beside an offset", "between_samples", _beside(0.02, -70, 1), _YES),
    Pair("small boxes in a large picture", "between_columns", _boxes),
    Pair("labels beside an offset", "flip_rate", _labels, {"y": "multilabel"}),
    Pair("numbers of things past 2,048", "flip_rate", _numbers),
    Pair("an embedding beside its mean", "between_samples", _beside(2e-3, 1, 64)),
    Pair("angles after many turns", "rel_l2", _angles, {"y": "angle:period=360"}),
    Pair("small turns", "between_samples", _quaternions, {"y": "quaternion"}),
)

"""A verdict case: outputs of a model and of a candidate, and the verdicts that are right for them.

A case is a function that makes its outputs from a seeded generator, registered by `harmful` or
`benign`. Its docstring says, in the words of a user, what goes wrong or why nothing does.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np

PASS = frozenset({"PASS"})
FAIL = frozenset({"FAIL"})
INCONCLUSIVE = frozenset({"INCONCLUSIVE"})
UNSURE = PASS | INCONCLUSIVE
DOUBT = FAIL | INCONCLUSIVE

SOFTMAX = {"loss": "sparse_categorical_crossentropy", "activation": "softmax"}
SIGMOID = {"loss": "binary_crossentropy", "activation": "sigmoid"}

# An array whose first axis is the table's row, or an array of any length for each row.
Table = np.ndarray | list[np.ndarray]


@dataclass(frozen=True)
class Outputs:
    """What the two models answer.

    Attributes:
        reference: outputs of the float32 model by name. A list of arrays is an output whose length
            depends on the data, such as what a non-maximum suppression keeps: such a model takes
            one sample at a time.
        candidate: outputs of the candidate, by the same names.
        labels: of the samples, as `validate` takes them.
        batched: whether outputs of any length have a first axis of 1, for the one sample.
    """

    reference: Mapping[str, Table]
    candidate: Mapping[str, Table]
    labels: np.ndarray | Mapping[str, np.ndarray] | None = None
    batched: bool = True


Make = Callable[[np.random.Generator], Outputs]


@dataclass(frozen=True)
class Case:
    """Constructed outputs with the verdicts that are right by default.

    Attributes:
        name: a fragment of a sentence.
        harm: whether a release of this candidate would hurt its users. False where nothing could be
            rounded better, or where the difference is irrelevant.
        why: what users see go wrong, or why nothing does.
        accept: the verdicts that are right. Two, where the evidence may be judged thin.
        make: makes the outputs; the same ones for the same generator.
        tasks: the meaning of outputs that a user has to declare, as `validate` takes it; empty
            where the tool can know by itself. `columns=0-3` are the columns 0, 1, 2 and 3.
        loss: the loss that the Keras model is compiled with, as `keras.losses.get` takes it, by
            output or for all; None for a model that is a plain function.
        activation: of the Keras model's last layer, by output or for all; None for a linear one.
    """

    name: str
    harm: bool
    why: str
    accept: frozenset[str]
    make: Make
    tasks: Mapping[str, str] = field(default_factory=dict)
    loss: Any = None
    activation: str | Mapping[str, str | None] | None = None

    def outputs(self) -> Outputs:
        """The outputs, the same ones in each process and for any selection of cases."""
        return self.make(np.random.default_rng(crc32(self.name.encode())))


class Cases(list[Case]):
    """Cases in the order of their definition, registered by the decorators."""

    def harmful(
        self, name: str, accept: frozenset[str] = FAIL, **facts: Any
    ) -> Callable[[Make], Make]:
        """Registers a candidate that must not be released."""
        return self._register(name, True, accept, facts)

    def benign(
        self, name: str, accept: frozenset[str] = PASS, **facts: Any
    ) -> Callable[[Make], Make]:
        """Registers a candidate that nobody could want to hold back."""
        return self._register(name, False, accept, facts)

    def _register(
        self, name: str, harm: bool, accept: frozenset[str], facts: Mapping[str, Any]
    ) -> Callable[[Make], Make]:
        def register(make: Make) -> Make:
            why = " ".join((make.__doc__ or "").split())
            assert why, f"{name}: say why in the docstring"
            assert accept.isdisjoint(PASS if harm else FAIL), name
            self.append(Case(name, harm, why, accept, make, **facts))
            return make

        return register


def one(
    name: str, exact: np.ndarray, received: np.ndarray, labels: np.ndarray | None = None
) -> Outputs:
    """One output of both models, numbers as float32."""
    exact, received = (
        values.astype(np.float32) if values.dtype.kind == "f" else values
        for values in (exact, received)
    )
    return Outputs({name: exact}, {name: received}, labels)


def half(values: np.ndarray) -> np.ndarray:
    """Rounded to FP16, as float32."""
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(np.float16).astype(np.float32)


def flushed(values: np.ndarray) -> np.ndarray:
    """Rounded to FP16 on hardware that has no subnormal numbers, as float32."""
    rounded = half(values)
    return np.where(np.abs(rounded) < np.finfo(np.float16).tiny, np.float32(0), rounded)


def same(values: np.ndarray) -> np.ndarray:
    """Values as they are, where a network is to be computed in float32."""
    return np.asarray(values, np.float32)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities along the last axis, as float32."""
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return (raised / raised.sum(axis=-1, keepdims=True)).astype(np.float32)


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Probabilities, as float32."""
    return (1 / (1 + np.exp(-np.asarray(logits, np.float64)))).astype(np.float32)


def regress(
    rng: np.random.Generator,
    samples: int,
    scale: Any = 1.0,
    offset: Any = 0.0,
    width: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of a small seeded network, computed in float32 and in FP16.

    Args:
        rng: draws the network and its inputs.
        samples: number of samples.
        scale: standard deviation of the outputs, one for all or one for each.
        offset: their mean, likewise.
        width: number of outputs.

    Returns:
        Two arrays [samples, width], the second with each tensor rounded as FP16 kernels write it.
    """
    inputs = rng.standard_normal((samples, 16))
    weights = [
        rng.standard_normal(shape) * np.sqrt(2 / shape[0])
        for shape in ((16, 48), (48, 48), (48, 48), (48, width))
    ]

    def hidden(keep: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        values = keep(inputs)
        for weight in weights[:-1]:
            values = keep(np.maximum(values @ keep(weight), 0))
        return values

    # The last layer brings the outputs to their scale, as training would have done.
    plain = hidden(same) @ weights[-1]
    last = weights[-1] / plain.std(axis=0) * scale
    bias = offset - (hidden(same) @ last).mean(axis=0)
    exact, rounded = (keep(hidden(keep) @ keep(last) + keep(bias)) for keep in (same, half))
    return exact, rounded


def classify(
    rng: np.random.Generator,
    truth: np.ndarray,
    classes: int,
    separation: float = 4.0,
    frequency: Any = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Logits of a small residual classifier, computed in float32 and in FP16.

    Args:
        rng: draws the network and its inputs.
        truth: the true class of each sample, in any shape.
        classes: number of classes.
        separation: distance of the classes from their common centre, in standard deviations of
            the noise within a class: at 4, about one sample in a hundred is mistaken.
        frequency: share of each class, which the classifier has learned.

    Returns:
        Two arrays [*truth.shape, classes], the second with each tensor rounded as FP16 kernels
        write it.
    """
    size = 24
    centres = rng.standard_normal((classes, size)) * separation / np.sqrt(size)
    inputs = centres[truth.ravel()] + rng.standard_normal((truth.size, size))
    blocks = [rng.standard_normal((size, size)) / np.sqrt(size) for _ in range(3)]

    def features(values: np.ndarray, keep: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        values = keep(values)
        for block in blocks:
            values = keep(values + keep(np.tanh(keep(values @ keep(block)))) / 8)
        return values

    last = features(centres, same)
    bias = np.log(frequency) - (last**2).sum(axis=1) / 2
    exact, rounded = (
        keep(features(inputs, keep) @ keep(last).T + keep(bias)) for keep in (same, half)
    )
    shape = (*truth.shape, classes)
    return exact.reshape(shape), rounded.reshape(shape)


def padded(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Ten detections on each of 400 photographs, the best first, in three outputs."""
    scores = -np.sort(-rng.uniform(0.3, 0.99, (400, 10)), axis=1)
    corner = rng.uniform(0, 0.7, (400, 10, 2))
    corners = np.concatenate([corner, corner + rng.uniform(0.08, 0.3, corner.shape)], axis=-1)
    classes = rng.integers(0, 80, (400, 10))
    found = {"boxes": corners, "scores": scores, "classes": classes}
    return {name: values.astype(np.float32) for name, values in found.items()}

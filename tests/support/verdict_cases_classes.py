"""Verdict cases: one decision, or a few, for each sample."""

import numpy as np
from verdict_case import (
    SIGMOID,
    SOFTMAX,
    UNSURE,
    Cases,
    Outputs,
    classify,
    flushed,
    half,
    regress,
    sigmoid,
    softmax,
)

CASES = Cases()
benign, harmful = CASES.benign, CASES.harmful


@benign("a softmax whose small classes round to zero", **SOFTMAX)
def _(rng):
    """The answer is the same each time; a probability of 1e-9 became 0, and no screen shows it."""
    logits, rounded = classify(rng, rng.integers(0, 20, 500), 20, separation=7)
    return Outputs({"species": softmax(logits)}, {"species": flushed(softmax(rounded))})


@benign("probabilities near 0.5 that flip at the noise level", UNSURE, **SIGMOID)
def _(rng):
    """A tenth of the coins stand on edge at 0.5000 +- 0.0001: no rounding can keep their side."""
    logits = rng.standard_normal((1000, 1)) * 4
    edge = rng.choice(1000, 100, replace=False)
    logits[edge] = rng.uniform(-3e-4, 3e-4, (100, 1))
    heads = sigmoid(logits)
    return Outputs({"heads": heads}, {"heads": half(heads)})


@benign("coins on edge, with labels that show the same accuracy", UNSURE, **SIGMOID)
def _(rng):
    """Of 5000 answers, 200 that were guesses are guessed otherwise, as often right as before."""
    logits = rng.standard_normal((5000, 1)) * 4
    edge = rng.choice(5000, 400, replace=False)
    logits[edge] = rng.uniform(-3e-4, 3e-4, (400, 1))
    heads = sigmoid(logits)
    truth = (rng.random((5000, 1)) < heads).astype(np.int64)
    return Outputs({"heads": heads}, {"heads": half(heads)}, truth)


@benign("click rates of 2 % with labels", **SIGMOID)
def _(rng):
    """The order of the advertisements and the expected clicks are the same to three digits."""
    exact, rounded = regress(rng, 2000, scale=0.7, offset=-4)
    clicked = (rng.random((2000, 1)) < sigmoid(exact)).astype(np.int64)
    return Outputs({"click": sigmoid(exact)}, {"click": half(sigmoid(rounded))}, clicked)


def tags(rng: np.random.Generator, labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits of tags, each on about one photograph in 30, exact and rounded."""
    return regress(rng, 1000, scale=4, offset=-7.5, width=labels)


@harmful("one of 20 tags that is never set any more", **SIGMOID)
def _(rng):
    """No photograph is tagged as violent any more, and children see them."""
    exact, rounded = tags(rng, 20)
    rounded[:, 13] = np.minimum(rounded[:, 13], -0.25)
    return Outputs({"tags": sigmoid(exact)}, {"tags": half(sigmoid(rounded))})


@harmful("an alarm that rings 6 times in 1000 and never again")
def _(rng):
    """The smoke detector is silent in all six fires."""
    fire = np.zeros(1000, bool)
    fire[rng.choice(1000, 6, replace=False)] = True
    return Outputs({"alarm": fire}, {"alarm": np.zeros(1000, bool)})


@harmful("ids beyond 2048 as FP16 numbers", tasks={"product": "ids"})
def _(rng):
    """FP16 holds even numbers only beyond 2048: customers are shown the neighbours of products."""
    ids = rng.integers(0, 30_000, 500).astype(np.float32)
    return Outputs({"product": ids}, {"product": half(ids)})

"""Rows that add up to 1 and of which nobody says what they are: shares of a whole, or scores."""

import numpy as np
import pytest
from judged_distances import drift, half, judged

from tfmp.converters.drift.metrics import OutputAccumulator
from tfmp.converters.drift.tasks import COMPILED, NAMED, Kind, Task
from tfmp.converters.drift.verdict.check import Check, Verdict
from tfmp.converters.drift.verdict.hidden.shares import share_checks

GENERATOR = np.random.default_rng(0)
TRACES = GENERATOR.gamma(4, [0.003, 0.002, 0.001], (300, 3))
ALLOYS = np.concatenate([1 - TRACES.sum(axis=1, keepdims=True), TRACES], axis=1)


@pytest.mark.parametrize(
    "lost",
    [ALLOYS[:, [0, 1, 3, 2]], np.where(np.arange(4) == 3, 0.004, ALLOYS), 1 - 0 * ALLOYS],
    ids=["exchanged", "constant", "pure"],
)
def test_traces_that_are_lost(lost):
    (found,) = share_checks(drift(ALLOYS, lost), 0.1)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "its rows add up to 1. If they are shares of a whole" in found.text


def test_traces_that_are_right():
    assert share_checks(drift(ALLOYS, half(ALLOYS)), 0.1) == []
    noisy = ALLOYS * (1 + 5e-3 * GENERATOR.standard_normal(ALLOYS.shape))
    assert share_checks(drift(ALLOYS, noisy / noisy.sum(axis=1, keepdims=True)), 0.1) == []


def test_who_declares_them_is_not_asked():
    exchanged = ALLOYS[:, [0, 1, 3, 2]]
    assert share_checks(drift(ALLOYS, exchanged, "classification"), 0.1) == []
    assert judged(ALLOYS, exchanged, "regression")[0] is Verdict.FAIL


def test_a_loss_that_reads_small_shares_asks_of_more_columns():
    loss = Task(Kind.CLASSIFICATION, why=f"{COMPILED} kl_divergence")
    topics = GENERATOR.gamma(4, np.where(np.arange(40) < 4, 1, 1e-3), (300, 40))
    topics /= topics.sum(axis=1, keepdims=True)
    other = np.where(np.arange(40) < 4, topics, np.roll(topics, 1, axis=0))
    found = []
    for received in (other, half(topics)):
        accumulator = OutputAccumulator("y", task=loss)
        accumulator.update(topics.astype(np.float32), received.astype(np.float32))
        found.append([check.verdict for check in share_checks(accumulator.result(loss), 0.1)])
    assert found == [[Verdict.INCONCLUSIVE], []]


NAME = Task(Kind.CLASSIFICATION, why=f"{NAMED} 'probs'")
FINDINGS = GENERATOR.uniform(0, 0.6, (500, 14))


def named(reference: np.ndarray, candidate: np.ndarray) -> list[Check]:
    accumulator = OutputAccumulator("probs", task=NAME)
    for part in (slice(0, 1), slice(1, None)):  # a sample may add up to 1 by chance
        accumulator.update(np.float32(reference[part]), np.float32(candidate[part]))
    return share_checks(accumulator.result(NAME), 0.1)


def test_probabilities_that_only_their_name_calls_classes():
    rare = np.where(np.arange(14) == 9, FINDINGS / 20, FINDINGS)
    (found,) = named(rare, np.where(np.arange(14) == 9, 0.002, rare))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "its name says 'probs', but its rows do not add up to 1" in found.text
    assert "column 9 of 14 is off by" in found.text
    assert "--task probs=multilabel, or classification if only the largest counts" in found.text
    assert named(rare, half(rare)) == []


def test_probabilities_of_classes_and_logits_by_name_are_no_findings():
    classes = FINDINGS / FINDINGS.sum(axis=1, keepdims=True)
    for scores in (classes, 20 * FINDINGS - 6):
        assert named(scores, np.where(np.arange(14) == 9, scores.mean(), scores)) == []


def test_noise_of_logits_and_a_broken_sample_are_no_loss():
    logits = 3 * GENERATOR.standard_normal((1000, 5)) - [0, 3, 6, 9, 12]

    def softmax(scores):
        raised = np.exp(scores - scores.max(axis=1, keepdims=True))
        return raised / raised.sum(axis=1, keepdims=True)

    noisy = softmax(logits + 0.02 * GENERATOR.standard_normal(logits.shape))
    noisy[3] = noisy[3, ::-1]
    checks = judged(softmax(logits), noisy)
    assert "shares of a whole" not in checks[1]

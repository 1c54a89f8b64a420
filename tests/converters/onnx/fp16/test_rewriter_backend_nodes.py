"""ONNX's own backend node tests: every operator, converted and emulated."""

import re
from collections import Counter

import pytest
from backend_nodes import Outcome, cases, outcome

INTEGERS = "rounds to integers, where one FP16 rounding can be a whole step"
RANDOM = "draws random numbers"
PRECISION = "logits near 10,000, where FP16 numbers are 8 apart"
RANGE = "the product is past 65504"
REFERENCE = "ONNX's reference evaluator hides outer constants from FlexAttention's bodies"

# What the emulator should give and does not, and why.
EXCEPTIONS = {
    "test_bernoulli_double": RANDOM,
    "test_bernoulli_double_expanded": RANDOM,
    "test_dynamicquantizelinear_expanded": INTEGERS,
    "test_flexattention_causal_mask": REFERENCE,
    "test_flexattention_prob_mod": REFERENCE,
    "test_flexattention_relative_positional": REFERENCE,
    "test_flexattention_score_mod": REFERENCE,
    "test_flexattention_soft_cap": REFERENCE,
    "test_logsoftmax_large_number": PRECISION,
    "test_logsoftmax_large_number_expanded": PRECISION,
    "test_logsoftmax_large_number_expanded_ver18": PRECISION,
    "test_reduce_prod_default_axes_keepdims_example": RANGE,
    "test_softmax_large_number": PRECISION,
    "test_softmax_large_number_expanded": PRECISION,
    "test_softmax_large_number_expanded_ver18": PRECISION,
}

# Drawn anew on every run: equal by chance at times.
BY_CHANCE = {name for name, cause in EXCEPTIONS.items() if cause == RANDOM}


@pytest.fixture(
    scope="module", params=["every third operator", pytest.param("all", marks=pytest.mark.slow)]
)
def chosen(request: pytest.FixtureRequest) -> list:
    if request.param == "all":
        return cases()
    return list({case.model.graph.node[0].op_type: case for case in cases(every=3)}.values())


@pytest.fixture(scope="module")
def outcomes(chosen: list) -> list[Outcome]:
    return [outcome(case) for case in chosen]


def test_every_node_converts_runs_and_stays_within_fp16_tolerance(outcomes: list[Outcome]):
    failed = {item.name: item.detail for item in outcomes if item.result == "failed"}
    assert failed.keys() - EXCEPTIONS.keys() == set(), failed
    # ONNX versions add cases; a cause that no longer applies must leave the list.
    present = {item.name for item in outcomes}
    assert (EXCEPTIONS.keys() & present) - failed.keys() <= BY_CHANCE


def test_most_nodes_compute_in_fp16_and_all_others_say_why(outcomes: list[Outcome]):
    counts = Counter(item.result for item in outcomes)
    assert counts["fp16"] > 3 * counts["fp32"] > 0
    assert counts["not run"] == 0
    assert all(item.detail for item in outcomes if item.result == "fp32")


# Operators that add up, by the names of their cases.
SUMS = re.compile("conv|einsum|gemm|gru|lstm|matmul|norm|pool|reduce|rnn|softmax")


def test_sums_in_fp16_are_the_same_sums(chosen: list):
    """With blocks of two terms almost every sum is taken apart."""
    outcomes = [outcome(case, profile="pessimistic:2") for case in chosen if SUMS.search(case.name)]
    failed = {item.name: item.detail for item in outcomes if item.result == "failed"}
    assert failed.keys() - EXCEPTIONS.keys() == set(), failed
    assert sum(item.result == "fp16" for item in outcomes) > len(outcomes) / 2


def test_the_comparison_sees_a_wrong_conversion(chosen: list, monkeypatch: pytest.MonkeyPatch):
    from tfmp.converters.onnx.fp16 import rewriter

    monkeypatch.setattr(rewriter._Rewriter, "_cast", lambda self, value, dtype: value)
    assert any(outcome(case).result == "failed" for case in chosen)

"""Verdicts of constructed outputs, harmful and benign, as users get them by default."""

from pathlib import Path

import pytest
from verdict_arrays import judged_on_arrays
from verdict_case import Case
from verdict_cases import CASES
from verdict_models import report_of

BY_NAME = {case.name: case for case in CASES}

# At least one of each kind of output runs as a model, too.
AS_MODELS = (
    "a class of 5 in 1000 samples that is never decided any more",
    "a classifier with labels, as logits",
    "coins on edge, with labels that show the same accuracy",
    "one of 20 tags that is never set any more",
    "three regression targets of very different scales",
    "outputs of tanh, most of them nearly 1",
    "unnamed images from 0 to 255, clipped",
    "a tiny column of an embedding is zero",
    "padded detections whose boxes have no size in one of ten photographs",
    "lists of detections with boxes elsewhere",
    "lists of detections without a batch axis",
    "a token classifier with labels of -100 where padding gives anything",
    "generated texts of which one in 20 breaks off",
    "ids beyond 2048 as FP16 numbers",
    "number plates of which 1 in 1000 changes",
    "an alarm that rings 6 times in 1000 and never again",
    "quantized vectors of which numbers are off by one",
    "a map of class ids whose rare class becomes the background",
    "a class of channels first that vanishes",
    "moves of chess at half their scale, what is forbidden is -1e9",
    "minus infinity at the same places on both sides",
    "NaN in other places than in the reference",
    "a value head that saw no difference between positions",
    "500 samples of which a tenth is repeated",
    "answers of which fewer match, by the user's metric",
)


def ids(case: Case) -> str:
    return case.name.replace(" ", "-")


def test_the_table_is_large_and_has_both_sides():
    assert len(BY_NAME) == len(CASES) >= 100
    assert min(sum(case.harm for case in CASES), sum(not case.harm for case in CASES)) > 30


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_the_verdict_is_right(case: Case):
    judged = judged_on_arrays(case)
    assert judged.verdict.value in case.accept, (case.why, judged.reasons)


@pytest.mark.parametrize("case", [BY_NAME[name] for name in AS_MODELS], ids=ids)
def test_models_give_the_same_verdict_as_their_arrays(case: Case, tmp_path: Path):
    (candidate,) = report_of(case, tmp_path).candidates
    judged = judged_on_arrays(case)
    reasons = tuple(reason for reason in candidate.reasons if reason != candidate.remedy)
    assert (candidate.verdict, reasons) == (judged.verdict, judged.reasons)

"""Checks of views: what fails, what is asked, and that the answers that a text names decide."""

import re

import numpy as np
import pytest
from judged_distances import checks_of, drift, half, judged

from tfmp.converters.drift import DriftBudget, OutputDrift
from tfmp.converters.drift.verdict.check import Check, Verdict
from tfmp.converters.drift.verdict.lost import lost_checks, outputs_checks

GENERATOR = np.random.default_rng(0)
PRESSURE = 1013 + 0.6 * GENERATOR.standard_normal((600, 1))


def check(name: str, found: OutputDrift, budget: DriftBudget | None = None) -> Check | None:
    checks = lost_checks(found, (budget or DriftBudget()).for_output(found.name))
    return next((each for each in checks if each.name == name), None)


def answered(text: str) -> DriftBudget:
    """The budget that a text asks for."""
    return DriftBudget.parse([re.search(r"--budget (\S+)$", text)[1]])


class TestRounding:
    """Numbers beside a larger offset, which FP16 itself rounds away."""

    def test_declared_numbers_fail_with_the_remedy(self):
        (found,) = checks_of(drift(PRESSURE, half(PRESSURE), "regression"))
        assert (found.name, found.verdict) == ("between_samples", Verdict.FAIL)
        assert found.text.startswith("output 'y': the error is 0.2")
        assert "FP16 has steps of 0.5 there" in found.text
        assert "Keep the end of the model in FP32" in found.text

    def test_a_file_that_ends_in_fp32_is_not_advised_to(self):
        found = drift(PRESSURE, half(PRESSURE) + 0.125)
        assert "FP16 has steps of 0.5 there. This matters" in check("between_samples", found).text


@pytest.mark.parametrize(
    ("task", "error", "verdict"),
    [
        (None, 2e-3, Verdict.INCONCLUSIVE),
        (None, 2e-2, Verdict.FAIL),
        ("regression", 2e-3, Verdict.FAIL),
    ],
)
def test_a_column_that_is_right_and_hardly_varies_is_asked_for(task, error, verdict):
    noise, wrong = GENERATOR.standard_normal((2, 600, 1))
    exact = np.concatenate([wrong, 0.0025 * (1 + noise / 400)], axis=1)
    received = exact + [0, 0.0025 * error] * wrong
    assert judged(drift(exact, received, task)) is verdict
    if verdict is Verdict.INCONCLUSIVE:
        asked = [found.text for found in checks_of(drift(exact, received, task))]
        assert any("This matters if samples are compared or ranked" in text for text in asked)


class TestShares:
    EXACT = GENERATOR.standard_normal((1000, 3)) + 3

    def wrong(self, share: float) -> np.ndarray:
        received = half(self.EXACT)
        received[: round(share * 1000), 1] *= 1.5
        return received

    @pytest.mark.parametrize("task", [None, "regression"])
    def test_wrong_samples(self, task):
        found = check("wrong_samples", drift(self.EXACT, self.wrong(0.03), task))
        assert found.verdict is Verdict.FAIL
        assert re.search(
            r"in \d+ of 1,000 samples column 1 of 3 is off by more than 0.3", found.text
        )
        assert found.p < 0.05
        assert found.lower > found.limit == 0.01


class TestNearEnd:
    SURVIVAL = 1 - 1e-4 * GENERATOR.lognormal(0, 1, (800, 1))

    @pytest.mark.parametrize(
        ("task", "verdict"),
        [
            ("regression", Verdict.FAIL),
            ("binary", Verdict.INCONCLUSIVE),
            (None, Verdict.INCONCLUSIVE),
        ],
    )
    def test_whoever_reads_numbers_reads_the_risk(self, task, verdict):
        drifted = drift(self.SURVIVAL, half(self.SURVIVAL), task)
        found = check("near_end", drifted)
        assert found.verdict is verdict
        assert "all values are within 0.01 of 1" in found.text
        assert (
            "of 800 samples have an error of more than 0.3 of their distance from it" in found.text
        )
        if verdict is Verdict.INCONCLUSIVE:
            assert check("near_end", drifted, answered(found.text)) is None

    def test_the_end_in_fp32_passes(self):
        received = 1 - half(1 - self.SURVIVAL).astype(np.float64)
        assert check("near_end", drift(self.SURVIVAL, received)) is None


class TestOutputs:
    COMMON = 300 + 40 * GENERATOR.standard_normal((500, 1))
    EXACT = COMMON + 0.2 * GENERATOR.standard_normal((3, 500, 1))

    def outputs(self, round_them) -> list[OutputDrift]:
        names = ("low", "middle", "high")
        return [
            drift(each, round_them(each), "regression", name)
            for each, name in zip(self.EXACT, names, strict=True)
        ]

    def test_what_lies_between_two_outputs(self):
        (doubt,) = outputs_checks(self.outputs(half), DriftBudget())
        assert (doubt.name, doubt.verdict) == ("between_outputs", Verdict.INCONCLUSIVE)
        assert re.match(
            r"output '\w+': less output '\w+': the error is 0.\d+ of the standard deviation",
            doubt.text,
        )
        name = re.search(r"--budget (\w+)\.between_outputs=none$", doubt.text)[1]
        budget = DriftBudget.parse(f"{name}.between_outputs=none")
        assert all(each.output != name for each in outputs_checks(self.outputs(half), budget))
        assert outputs_checks(self.outputs(half), DriftBudget(between_outputs=None)) == []

    def test_outputs_that_are_right(self):
        def right(values):
            return values + 1e-4 * GENERATOR.standard_normal(values.shape)

        checks = outputs_checks(self.outputs(right), DriftBudget())
        assert all(each.verdict is Verdict.PASS for each in checks)
        assert outputs_checks([], DriftBudget()) == []

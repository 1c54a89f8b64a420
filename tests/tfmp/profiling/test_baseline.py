"""A profile against an earlier one: noise raises no alarm, changes do, wrong files are told."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import profiles
import pytest
from profiles import A100, CORES, layer, step

from tfmp.machine.devices import CPU
from tfmp.machine.measuring import DEVICE_MEMORY, POOLED_MEMORY, PROCESS_MEMORY
from tfmp.precision.tensor_cores import TensorCorePath
from tfmp.profiling.baseline import check_run, read_baseline
from tfmp.profiling.report import ProfileReport

GIB = 2**30
NARROW = TensorCorePath(True, "units 30 (padded: 32)")
NO_CORES = TensorCorePath(False, "computes in float32")


def profile(seconds, memory=GIB, path=CORES, source=DEVICE_MEMORY, **changed) -> ProfileReport:
    """A report with one policy and one layer."""
    name = "mixed_float16"
    row, conv = step(name, seconds, memory, source=source), layer("block/conv", {name: (1.0, path)})
    made = profiles.profile(row, layers=[conv], device=A100, environment={"keras": "3.15"})
    return replace(made, **changed)


def alone(policy: str = "mixed_float16", batch: int = 32) -> dict[str, Any]:
    """One policy, without layers."""
    return {"variants": (step(policy, (0.1,) * 6, batch_size=batch),), "layers": ()}


def document(report: ProfileReport) -> dict[str, Any]:
    return {**report.to_dict(), "path": "base.json"}


def compared(then: ProfileReport, now: ProfileReport, tolerance: float = 0.1):
    return now.compared_with(document(then), tolerance).against


def bursts(rng, median, count=10):
    """Timings of a step with that true median, a tenth of which somebody else disturbed."""
    noise = 1 + 0.02 * rng.standard_normal(count) + 2 * (rng.random(count) < 0.1)
    return [float(value) for value in median * np.maximum(noise, 0.1)]


def share_of_alarms(ratio: float) -> float:
    """How often a step that takes that many times longer is told to be slower."""
    rng = np.random.default_rng(7)
    pairs = [(bursts(rng, 0.02), bursts(rng, 0.02 * ratio)) for _ in range(200)]
    return np.mean([compared(profile(one), profile(two)).worse for one, two in pairs])


def test_noise_raises_no_alarm_and_slower_steps_do():
    assert share_of_alarms(1.0) == 0.0
    # The tolerance itself is the worst case.
    assert share_of_alarms(1.1) <= 0.01
    assert share_of_alarms(1.3) >= 0.99


def test_a_change_that_may_be_noise_is_told_and_raises_no_alarm():
    then = [0.010, 0.011, 0.012, 0.013, 0.030, 0.031, 0.009, 0.012]
    now = [value * 1.3 for value in then]
    (step, _) = compared(profile(then), profile(now)).changes
    assert (step.what, step.verdict) == ("step time", "unclear")
    assert step.text.endswith("15.6 ms now (1.30 times), which may be noise: measure more rounds")


def test_the_tolerance_is_the_users():
    then, now = [0.01] * 10, [0.013] * 10
    assert compared(profile(then), profile(now), 0.25).regressions
    found = compared(profile(then), profile(now), 0.35)
    assert not found.regressions
    assert found.answer == "Not worse than base.json, within 35%"
    with pytest.raises(ValueError, match=r"at least 0; received nan.* It is a share, such as 0\.1"):
        compared(profile(then), profile(now), float("nan"))


@pytest.mark.parametrize(
    ("then", "now", "source", "verdicts"),
    [
        (GIB, int(1.2 * GIB), DEVICE_MEMORY, ["worse"]),
        (2**20, 6 * 2**20, PROCESS_MEMORY, ["same"]),  # within the noise of a process
        (GIB, 2 * GIB, PROCESS_MEMORY, ["worse"]),
        (GIB, 3 * GIB, POOLED_MEMORY, []),  # a lower bound is no evidence
    ],
)
def test_memory(then, now, source, verdicts):
    found = compared(*(profile([0.01] * 6, size, source=source) for size in (then, now)))
    assert [change.verdict for change in found.changes] == ["same", *verdicts]
    told = "memory: 1 GiB then, 3 GiB now, not compared: process memory, at least"
    assert (told in str(found.caveats)) == (not verdicts)


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        (CORES, NO_CORES, "block/conv (computes in float32)"),
        (CORES, NARROW, "block/conv (units 30 (padded: 32))"),
        (CORES, CORES, ""),
    ],
)
def test_a_lost_path_to_tensor_cores(before, after, lost):
    found = compared(profile([0.01] * 6, path=before), profile([0.01] * 6, path=after))
    texts = [change.text for change in found.regressions]
    assert texts == ([f"1 layer lost their path: {lost}"] if lost else [])


def test_a_policy_that_no_longer_runs():
    failed = profile([], variants=(step("mixed_float16", (), error="out of memory"),))
    (lost,) = compared(profile([0.01] * 6), failed).regressions
    assert (lost.what, lost.text) == ("run", "did not run: out of memory")
    with pytest.raises(ValueError, match="has mixed_float16"):
        compared(failed, failed)


def test_other_versions_names_and_policies_are_told():
    extra = step("float32", (0.02,) * 8)
    then, now = profile([0.01] * 8), profile([0.01] * 8)
    now = replace(now, model="other", environment={"keras": "3.16"})
    then = replace(then, variants=(extra, *then.variants), layers=())
    assert compared(then, now).caveats == (
        "the baseline is of a model named 'm', now 'other'",
        "the baseline was made with keras 3.15 (now 3.16)",
        "float32: not compared, as not measured now",
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"device": CPU}, r"the device of this run, 'CPU'; 'base.json' was made with 'NVIDIA A100"),
        ({"backend": "jax"}, r"the Keras backend of this run, 'jax'"),
        ({"environment": {"processor": "slow"}}, "the processor of this run, 'slow'"),
        (alone("float64"), r"policies of this run, float64; 'base.json' has mixed_float16"),
        (alone(batch=64), r"of this run, 64; 'base.json' was made with 32. Pass --batch-size 32"),
    ],
)
def test_profiles_that_cannot_be_compared(changed, message):
    then = profile([0.01] * 6, environment={"processor": "fast"})
    with pytest.raises(ValueError, match=message):
        compared(then, replace(then, **changed))


def test_another_device_is_told_before_anything_is_measured():
    with pytest.raises(ValueError, match="make a baseline here with `tfmp profile --save`"):
        check_run(document(profile([0.01] * 6)), 0.1)


GOOD = json.dumps(profile([0.01] * 6).to_dict())


def test_profiles_of_the_first_schema_are_read(tmp_path):
    path = tmp_path / "b.json"
    path.write_text(GOOD.replace("tfmp.profile/2", "tfmp.profile/1"))
    assert not profile([0.01] * 6).compared_with(path).against.worse


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"is no whole JSON document \(Expecting value"),
        ('{"schema": "tfmp.colocate/1"}', r"\(schema 'tfmp.profile/2'\);.*'tfmp.colocate/1'"),
        ('{"schema": "tfmp.profile/1"}', r"is damaged: it lacks 'device'"),
        (GOOD.replace("0.01,", "-1,"), r"seconds of a step are not numbers above 0"),
        (GOOD.replace("0.01,", '"nan",'), r"is damaged"),
        (GOOD.replace("tensor_cores", "cores"), r"is damaged: it lacks 'tensor_cores'"),
    ],
)
def test_damaged_files(tmp_path, text, message):
    path = tmp_path / "b.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=message):
        read_baseline(path)

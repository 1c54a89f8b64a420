"""A profile against an earlier one: noise raises no alarm, changes do, wrong files are told."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import profiles
import pytest
from profiles import A100, CORES, layer, step

from tfmp.machine.devices import CPU
from tfmp.machine.measuring import DEVICE_MEMORY, POOLED_MEMORY, PROCESS_MEMORY, Timing
from tfmp.precision.tensor_cores import TensorCorePath
from tfmp.profiling.baseline import WRONG_ALARMS, _longer, baseline_of, check_run, read_baseline
from tfmp.profiling.kernels import KernelUse
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


def alone(policy: str = "mixed_float16", rounds: int = 6, batch: int = 32) -> dict[str, Any]:
    """One policy, without layers."""
    return {"variants": (step(policy, (0.1,) * rounds, batch_size=batch),), "layers": ()}


def bursts(rng, median, count=10):
    """Timings of a step with that true median, a tenth of which somebody else disturbed."""
    noise = 1 + 0.02 * rng.standard_normal(count) + 2 * (rng.random(count) < 0.1)
    return [float(value) for value in median * np.maximum(noise, 0.1)]


def compared(then: ProfileReport, now: ProfileReport, tolerance: float = 0.1):
    return now.compared_with(baseline_of(then.to_dict(), "base.json"), tolerance).against


def share_of_alarms(ratio: float, times: int = 400) -> float:
    """How often a step that takes that many times longer is told to be slower."""
    rng = np.random.default_rng(7)
    alarms = 0
    for _ in range(times):
        then, now = (Timing(tuple(bursts(rng, size))) for size in (0.02, 0.02 * ratio))
        alarms += _longer(now, then, 1.1, WRONG_ALARMS)
    return alarms / times


def test_noise_raises_no_more_alarms_than_stated_and_slower_steps_do():
    assert share_of_alarms(1.0) <= WRONG_ALARMS
    # The tolerance itself is the worst case: there the rate is the stated one, but for chance.
    assert share_of_alarms(1.1) <= 2 * WRONG_ALARMS
    assert share_of_alarms(1.3, 200) >= 0.8


def test_many_rounds_are_compared_within_seconds():
    rng = np.random.default_rng(3)
    then = profile(bursts(rng, 0.02, 1500))
    assert compared(then, profile(bursts(rng, 0.02, 1500))).changes[0].verdict == "same"
    assert compared(then, profile(bursts(rng, 0.03, 1500))).changes[0].verdict == "worse"


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
    found = compared(profile(now), profile(then))
    assert found.changes[0].verdict == "better"
    assert found.answer.endswith("step time of mixed_float16. A new baseline would hold the gain")
    with pytest.raises(
        ValueError,
        match=r"a finite number of at least 0; received nan.* It is a share, such as 0\.1\.",
    ):
        compared(profile(then), profile(now), float("nan"))


@pytest.mark.parametrize(
    ("then", "now", "source", "verdict"),
    [
        (GIB, int(1.2 * GIB), DEVICE_MEMORY, "worse"),
        (2**20, 6 * 2**20, PROCESS_MEMORY, "same"),  # within the noise of a process
        (GIB, 2 * GIB, PROCESS_MEMORY, "worse"),
    ],
)
def test_memory(then, now, source, verdict):
    found = compared(
        profile([0.01] * 6, then, source=source), profile([0.01] * 6, now, source=source)
    )
    assert [change.verdict for change in found.changes] == ["same", verdict]
    assert bool(found.regressions) == (verdict == "worse")


def test_memory_that_is_a_lower_bound_is_no_evidence():
    then, now = (profile([0.01] * 6, size * GIB, source=POOLED_MEMORY) for size in (1, 3))
    found = compared(then, now)
    assert not found.regressions
    assert (
        "memory: 1 GiB then, 3 GiB now, not compared: process memory, at least" in found.caveats[0]
    )


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


def test_kernels_that_no_longer_use_tensor_cores():
    def report(share):
        made = profile([0.01] * 6)
        used = KernelUse(1.0, share, 0.0, {"block/conv": share})
        return replace(made, variants=(replace(made.variants[0], kernels=used),))

    (lost,) = compared(report(0.9), report(0.0)).regressions
    assert "block/conv (its kernels no longer use them)" in lost.text
    assert not compared(report(0.9), report(0.4)).regressions
    assert not compared(report(0.9), profile([0.01] * 6)).regressions  # no profiler this time


def test_a_policy_that_no_longer_runs():
    failed = profile([], variants=(step("mixed_float16", (), error="out of memory"),))
    (lost,) = compared(profile([0.01] * 6), failed).regressions
    assert str(lost) == "mixed_float16, run: did not run: out of memory"
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
        (alone("float64"), r"policies of this run, float64; 'base.json' has mixed_float16"),
        (
            alone(batch=64),
            r"the batch size of this run, 64; 'base.json' was made with 32. Pass --batch-size 32",
        ),
        (alone(rounds=4), r"expects 5 rounds or more, .*'this run' has 4. Pass --rounds 5"),
    ],
)
def test_profiles_that_cannot_be_compared(changed, message):
    with pytest.raises(ValueError, match=message):
        compared(profile([0.01] * 6), profile([0.01] * 6, **changed))


def test_what_cannot_be_compared():
    then = profile([0.01] * 6, device=CPU, environment={"processor": "fast"})
    with pytest.raises(ValueError, match="the processor of this run, 'slow'"):
        compared(then, replace(then, environment={"processor": "slow"}))
    baseline = baseline_of(profile([0.01] * 6).to_dict(), "base.json")
    with pytest.raises(ValueError, match="Make a baseline here with `tfmp profile --save`"):
        check_run(baseline, 1, 10, 0.1)


GOOD = profile([0.01] * 6).to_dict()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"is no whole JSON document \(Expecting value"),
        ('{"schema": "tfmp.colocate/1"}', r"\(schema 'tfmp.profile/1'\);.*'tfmp.colocate/1'"),
        ('{"schema": "tfmp.profile/1"}', r"is damaged: it lacks 'model'"),
        (json.dumps(GOOD).replace("0.01,", "-1,"), r"seconds of a step are not numbers above 0"),
        (json.dumps(GOOD).replace("0.01,", f"1{'0' * 400},"), r"is damaged"),
        (json.dumps(GOOD).replace(str(GIB), "-1"), r"is damaged: the bytes of a step"),
        (json.dumps(GOOD).replace("tensor_cores", "cores"), r"is damaged: it lacks 'tensor_cores'"),
    ],
)
def test_damaged_files(tmp_path, text, message):
    path = tmp_path / "b.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=message) as caught:
        read_baseline(path)
    assert str(caught.value).endswith("Make it again with `tfmp profile --save`.")


def test_what_save_writes_is_a_baseline(tmp_path):
    report = profile([0.01] * 6)
    found = report.compared_with(report.save(tmp_path / "base.json"))
    assert found.against.answer == f"Not worse than {tmp_path / 'base.json'}, within 10%"
    assert str(found).startswith(found.against.answer)
    assert found.to_dict()["against"]["worse"] is False

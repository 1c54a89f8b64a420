"""Verdicts from work, time and peaks that are written down here."""

import pytest

from tfmp.precision.tensor_cores import TensorCorePath
from tfmp.roofline.peaks import Peaks
from tfmp.roofline.verdict import (
    COMPUTE_BOUND,
    LAUNCH_BOUND,
    MEMORY_BOUND,
    Placement,
    Setting,
)
from tfmp.roofline.work import Work

# Ten FLOPs in the time of a byte in float32, a hundred on Tensor Cores.
PEAKS = Peaks({"float32": 1e13, "tf32": 5e13, "float16": 1e14}, 1e12, 1e-5, 2e-6)
MULTIPLIES = Work({"float32": 10**11}, 0, 10**9, 3)
MOVES = Work({}, 10**9, 10**10, 3)
TINY = Work({"float32": 10**6}, 0, 10**5, 40)


@pytest.mark.parametrize(
    ("work", "seconds", "verdict", "advice", "at_most"),
    [
        (MULTIPLIES, 0.012, COMPUTE_BOUND, "16 bits multiply faster", 10.0),
        (MOVES, 0.012, MEMORY_BOUND, "halves the bytes", 2.0),
        (TINY, 0.0005, LAUNCH_BOUND, "a larger batch or jit_compile=True", 5000.0),
        (Work(), 0.0005, LAUNCH_BOUND, "a larger batch or jit_compile=True", None),
        (MULTIPLIES, 0.1, COMPUTE_BOUND, "kernels reach 10% of the roof", 10.0),
        (MULTIPLIES, 2.1, COMPUTE_BOUND, "kernels reach under 1% of the roof", 210.0),
    ],
)
def test_the_limit_of_a_float32_program(work, seconds, verdict, advice, at_most):
    found = Placement(work, seconds, PEAKS, Setting("float32"))
    assert found.verdict == verdict
    assert advice in str(found.advice)
    assert found.advice.at_most == pytest.approx(at_most)
    assert found.peak_share == pytest.approx(found.compute_s / seconds)


def test_the_precision_that_was_used_sets_the_peak():
    narrow = Work({"float16": 10**11}, 0, 10**8)
    assert Placement(narrow, 0.01, PEAKS, Setting("mixed_float16")).peak_share == 0.1
    tf32 = Placement(MULTIPLIES, 0.01, PEAKS, Setting("float32", tf32=True))
    assert tf32.peak_share == pytest.approx(0.2)
    assert PEAKS.rate("int8") == PEAKS.rate("float32")
    narrow = Work({"float16": 10**11}, 0, 10**8)
    setting = Setting("mixed_float16", jit=True)
    odd = TensorCorePath(True, "units 30 (padded: 32)")
    found = Placement(narrow, 0.002, PEAKS, setting, odd)
    idle = "Tensor Cores idle on odd sizes: pad units 30 (padded: 32) (at most 2x as fast)"
    assert str(found.advice) == idle
    no = TensorCorePath(False, "looks rows up")
    assert "looks rows up" in str(Placement(narrow, 0.0012, PEAKS, setting, no).advice)
    found = Placement(MOVES, 0.001, PEAKS, Setting("float32"))
    assert found.memory_s == 0
    assert found.verdict != MEMORY_BOUND
    moves = Work({}, 10**9, 10**10, 3)
    for jit, advice in ((False, "jit_compile=True fuses"), (True, "fewer or smaller activations")):
        found = Placement(moves, 0.012, PEAKS, Setting("mixed_float16", jit=jit))
        assert advice in found.advice.text

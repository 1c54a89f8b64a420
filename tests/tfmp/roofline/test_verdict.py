"""Verdicts from work, time and peaks that are written down here."""

import pytest

from tfmp.precision.tensor_cores import TensorCorePath
from tfmp.roofline.cards import TABLE, datasheet
from tfmp.roofline.peaks import Peaks
from tfmp.roofline.verdict import (
    COMPUTE_BOUND,
    LAUNCH_BOUND,
    MEMORY_BOUND,
    Setting,
    place,
)
from tfmp.roofline.work import Work

# Ten FLOPs in the time of a byte in float32, a hundred on Tensor Cores.
PEAKS = Peaks({"float32": 1e13, "tf32": 5e13, "float16": 1e14}, 1e12, 1e-5, 2e-6, "a test")
NOTHING = Work()
MULTIPLIES = Work({"float32": 10**11}, 0, 10**9, 3)
MOVES = Work({}, 10**9, 10**10, 3)
TINY = Work({"float32": 10**6}, 0, 10**5, 40)


@pytest.mark.parametrize(
    ("work", "seconds", "verdict", "advice", "at_most"),
    [
        (MULTIPLIES, 0.012, COMPUTE_BOUND, "16 bits multiply faster", 10.0),
        (MOVES, 0.012, MEMORY_BOUND, "halves the bytes", 2.0),
        (TINY, 0.0005, LAUNCH_BOUND, "a larger batch or jit_compile=True", 5000.0),
        (MULTIPLIES, 0.1, COMPUTE_BOUND, "kernels reach 10% of the roof", 10.0),
        (MULTIPLIES, 2.1, COMPUTE_BOUND, "kernels reach under 1% of the roof", 210.0),
    ],
)
def test_the_limit_of_a_float32_program(work, seconds, verdict, advice, at_most):
    found = place(work, NOTHING, seconds, PEAKS, Setting("float32"))
    assert found.verdict == verdict
    assert advice in str(found.advice)
    assert found.advice.at_most == pytest.approx(at_most)
    assert found.peak_share == pytest.approx(found.compute_s / seconds)


def test_the_precision_that_was_used_sets_the_peak():
    narrow = Work({"float16": 10**11}, 0, 10**8)
    assert place(narrow, NOTHING, 0.01, PEAKS, Setting("mixed_float16")).peak_share == 0.1
    tf32 = place(MULTIPLIES, NOTHING, 0.01, PEAKS, Setting("float32", tf32=True))
    assert tf32.peak_share == pytest.approx(0.2)
    assert PEAKS.rate("int8") == PEAKS.rate("float32")
    narrow = Work({"float16": 10**11}, 0, 10**8)
    setting = Setting("mixed_float16", jit=True)
    odd = TensorCorePath(True, "units 30 (padded: 32)")
    found = place(narrow, NOTHING, 0.002, PEAKS, setting, odd)
    assert (
        str(found.advice) == "Tensor Cores idle on odd sizes: pad units 30 (padded: 32): at most 2x"
    )
    no = TensorCorePath(False, "looks rows up")
    assert "looks rows up" in str(place(narrow, NOTHING, 0.0012, PEAKS, setting, no).advice)
    found = place(MOVES, NOTHING, 0.001, PEAKS, Setting("float32"))
    assert found.memory_s == 0
    assert found.verdict != MEMORY_BOUND
    moves = Work({}, 10**9, 10**10, 3)
    for jit, advice in ((False, "jit_compile=True fuses"), (True, "fewer or smaller activations")):
        found = place(moves, NOTHING, 0.012, PEAKS, Setting("mixed_float16", jit=jit))
        assert advice in found.advice.text


@pytest.mark.parametrize(
    ("name", "fp16", "bandwidth"),
    [
        ("NVIDIA A100-SXM4-40GB", 312e12, 1555e9),
        ("Tesla T4", 65e12, 320e9),
        ("NVIDIA GeForce RTX 4090", 165.2e12, 1008e9),
        ("NVIDIA L40S", 362e12, 864e9),
    ],
)
def test_cards_by_the_name_of_the_driver(name, fp16, bandwidth):
    row = datasheet(name)
    assert row.flops["float16"] == fp16
    assert row.bytes_per_second == bandwidth


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA GeForce RTX 3080 Laptop GPU",
        "NVIDIA A10G",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "CPU",
    ],
)
def test_a_card_with_a_similar_name_is_another_card(name):
    assert datasheet(name) is None


def test_every_row_is_plausible_and_names_its_source():
    for row in TABLE:
        assert row.source.startswith("NVIDIA")
        assert row.fp16 >= 2 * row.fp32 - 1
        assert row.fp64 <= row.fp32
        assert row.tf32 is None or row.fp32 <= row.tf32 <= row.fp16
        assert (row.tf32 is None) == (row.bf16 is None)
        assert 100 < row.bandwidth < 10_000
    assert len({row.pattern for row in TABLE}) == len(TABLE)

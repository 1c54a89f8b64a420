"""FP16 instructions, as Linux tells them."""

import platform

import pytest

from tfmp.converters.runners.cpu import fp16_instructions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("processor\t: 0\nflags\t\t: fpu sse f16c avx512f avx512_fp16 amx_tile\n", "AVX512-FP16"),
        ("processor\t: 0\nflags\t\t: fpu sse f16c avx2\n", "F16C"),
        ("processor\t: 0\nFeatures\t: fp asimd fphp asimdhp\n", "ARM FP16"),
        ("processor\t: 0\nflags\t\t: fpu sse\n", platform.machine()),
        ("", platform.machine()),
    ],
)
def test_the_best_instructions_are_named(tmp_path, text: str, expected: str):
    (tmp_path / "cpuinfo").write_text(text)
    assert fp16_instructions(tmp_path / "cpuinfo") == expected


def test_other_systems_tell_their_kind(tmp_path):
    assert fp16_instructions(tmp_path / "none") == platform.machine()

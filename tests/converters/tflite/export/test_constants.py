"""What FP16 does to constants, and which of it is told."""

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

from tfmp.converters.tflite.export.constants import examine


# float16: largest 65504, rounds up to infinity from 65520; subnormal below 2^-14, zero at 2^-25.
@pytest.mark.parametrize(
    ("values", "dtype", "serious", "text"),
    [
        (
            [65519.0, -65520.0, 2e5, 1.0],
            "float32",
            True,
            "2 of 4 values clamp to 65504, the largest is 2e+05",
        ),
        ([65504.0, 1.0], "float16", True, "1 of 2 values clamp to 65504"),
        ([2.0**-25, -(2.0**-26), 0.0, 1.0], "float32", False, "2 of 4 values become 0"),
        ([2.0**-25, -(2.0**-26)], "float32", True, "2 of 2 values become 0"),
        (
            [2.0**-25, 2.0**-25 * 1.01, 2.0**-14 * 0.99, 2.0**-14],
            "float32",
            False,
            "1 of 4 values become 0; 2 of 4 values are subnormal and lose digits",
        ),
    ],
)
def test_findings_say_what_happens_where(
    values: list[float], dtype: str, serious: bool, text: str
) -> None:
    found = examine("m_1/dense_1/MatMul", np.array(values, dtype))
    assert found is not None
    assert found.serious == serious
    assert str(found) == f"constant 'm_1/dense_1/MatMul' (layer dense): {text}"


def test_a_conversion_names_what_fp16_destroyed_and_nothing_that_was_folded_away(
    convert: Callable, models: ModuleType
) -> None:
    _, file = convert(models.destroyed_constants)
    told = [note for note in file.notes if note.startswith("constant")]
    assert len(told) == 3, told
    assert any("(layer big)" in note and "the largest is" in note for note in told)
    # Only folding made this one too large: 1 / sqrt(1e-12) scales the kernel.
    assert any("(layer conv)" in note and "clamp to 65504" in note for note in told)
    # The moving variance vanishes too, but it is not in the file.
    assert any("(layer norm)" in note and "1 of 1 values become 0" in note for note in told)

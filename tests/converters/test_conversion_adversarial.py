"""No verdict by default is a PASS where an oracle loses the file, or a FAIL where none does."""

from pathlib import Path

import onnx
import pytest
from adversarial import ADVERSARIES, Adversary
from fp16_oracles import ORACLES
from oracle_verdicts import oracle_rows

from tfmp.converters import convert
from tfmp.converters.intake import open_source

BY_NAME = {adversary.name: adversary for adversary in ADVERSARIES}
# One of each mechanism: a runtime's kernel, a fusion, FP16 itself, and a sound twin.
FEW = ("residual", "residual_sound", "rms_residual", "square_sum", "small_divisor_sound")
# Samples that oracles run; they are slow, and judged the same on fewer.
SHARE = 96


def check_adversary(adversary: Adversary, folder: Path, names: tuple[str, ...]) -> None:
    """The verdict for all runtimes beside those of the oracles that run the file."""
    batch, path = adversary.batch(), folder / "model.onnx"
    onnx.save(adversary.make(), path)
    asked = {"data": batch, "fp16_edges": True, "target": "all"}
    artifact = convert(path, output=folder / "half.onnx", **asked)
    few = {name: array[:SHARE] if array.ndim else array for name, array in batch.items()}
    rows = oracle_rows(open_source(path), onnx.load(artifact.path), few, names)
    told = {name: row.verdict for name, row in rows if row.verdict is not None}
    assert told
    assert (artifact.report.verdict == "PASS") != adversary.harm, told
    assert adversary.harm or "FAIL" not in told.values(), told


@pytest.mark.parametrize("name", FEW)
def test_verdicts_hold_against_numpy(name: str, tmp_path: Path) -> None:
    check_adversary(BY_NAME[name], tmp_path, ("NumPy", "NumPy, FP32 inside"))


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NAME)
def test_verdicts_hold_against_every_oracle(name: str, tmp_path: Path) -> None:
    check_adversary(BY_NAME[name], tmp_path, tuple(ORACLES))

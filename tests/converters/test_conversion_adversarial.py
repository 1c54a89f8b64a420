"""No verdict by default is a PASS where an oracle loses the file, or a FAIL where none does."""

from pathlib import Path

import field_overflows
import onnx
import pytest
from adversarial import ADVERSARIES, Adversary
from field_case import FieldCase
from fp16_oracles import ORACLES
from oracle_verdicts import oracle_rows

from tfmp.converters import convert
from tfmp.converters.intake import open_source
from tfmp.converters.shared.tensors import Batch

BY_NAME = {adversary.name: adversary for adversary in ADVERSARIES}
# One of each mechanism: a runtime's kernel, a fusion, FP16 itself, and a sound twin.
FEW = ("residual", "residual_sound", "rms_residual", "square_sum", "small_divisor_sound")
# Samples that oracles run; they are slow, and judged the same on fewer.
SHARE = 96

REPORTS = {
    case.name: case
    for case in field_overflows.CASES
    if case.to == "onnx" and isinstance(case.make(), onnx.ModelProto)
}


def verdicts(
    model: onnx.ModelProto, batch: Batch, folder: Path, names: tuple[str, ...], **options: object
) -> tuple[str, dict[str, str]]:
    """The verdict for all runtimes, and those of the oracles that run the file."""
    path = folder / "model.onnx"
    onnx.save(model, path)
    options |= {"fp16_edges": True, "target": "all"}
    artifact = convert(path, output=folder / "half.onnx", data=batch, **options)
    few = {name: array[:SHARE] if array.ndim else array for name, array in batch.items()}
    rows = oracle_rows(open_source(path), onnx.load(artifact.path), few, names)
    told = {name: row.verdict.value for name, row in rows if row.verdict is not None}
    return artifact.report.verdict.value, told


def check(verdict: str, told: dict[str, str]) -> None:
    assert told
    if "FAIL" in told.values():
        assert verdict != "PASS", told


def check_adversary(adversary: Adversary, folder: Path, names: tuple[str, ...]) -> None:
    verdict, told = verdicts(adversary.make(), adversary.batch(), folder, names)
    check(verdict, told)
    if adversary.harm:
        assert verdict != "PASS", told
    else:
        assert verdict == "PASS", told
        assert "FAIL" not in told.values(), told


@pytest.mark.parametrize("name", FEW)
def test_verdicts_hold_against_numpy(name: str, tmp_path: Path) -> None:
    check_adversary(BY_NAME[name], tmp_path, ("NumPy", "NumPy, FP32 inside"))


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NAME)
def test_verdicts_hold_against_every_oracle(name: str, tmp_path: Path) -> None:
    check_adversary(BY_NAME[name], tmp_path, tuple(ORACLES))


@pytest.mark.slow
@pytest.mark.parametrize("name", REPORTS)
def test_verdicts_on_public_reports_hold_against_every_oracle(name: str, tmp_path: Path) -> None:
    case: FieldCase = REPORTS[name]
    check(*verdicts(case.model(), case.batch(), tmp_path, tuple(ORACLES), **case.options))

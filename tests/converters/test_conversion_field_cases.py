"""Public reports of FP16 and export trouble, rebuilt: each gets a valid file, with its verdict."""

from pathlib import Path

import field_graphs
import field_keras
import field_layers
import field_overflows
import onnx
import pytest
from field_case import FieldCase

from tfmp.converters import convert
from tfmp.converters.shared.sessions import cpu_session

MODULES = (field_overflows, field_layers, field_graphs, field_keras)
CASES = {case.name: case for module in MODULES for case in module.CASES}


def converted(case: FieldCase, path: Path, **options: object) -> str:
    """The verdict on the file of a case, which loads and is valid."""
    model = case.model()
    if isinstance(model, onnx.ModelProto):
        source = path.with_name("model.onnx")
        onnx.save(model, source)
        model = source
    options = {**case.options, "emulate": case.emulate, "force": True, **options}
    artifact = convert(model, case.to, path, data=case.batch(), **options)
    if case.to == "onnx":
        onnx.checker.check_model(str(path), full_check=True)
        onnx.shape_inference.infer_shapes(onnx.load(path), check_type=True, strict_mode=True)
        cpu_session(path)
    return artifact.report.verdict.value


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_report_gets_its_verdict_in_fp16_and_with_the_option_that_a_fail_names(
    case: FieldCase, tmp_path: Path
):
    found = [converted(case, tmp_path / f"half.{case.to}")]
    if found == ["FAIL"]:
        option = {"precision": "mixed"} if case.to == "onnx" else {"repair": True}
        found.append(converted(case, tmp_path / f"mended.{case.to}", **option))
    assert found == case.verdicts.split()

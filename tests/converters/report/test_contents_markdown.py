"""Markdown for a pull request: short and whole."""

from tfmp.converters.report.contents import to_markdown


def test_shows_table_reasons_data_and_budget(report) -> None:
    text = to_markdown(report)
    lines = text.splitlines()
    assert lines[0] == "## ✗ Drift report: FAIL"
    assert lines[2] == "1 of 4 candidates passed against digits, on 450 samples."
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 6 + 6
    assert "| **✓ PASS** |" in table[2]
    assert "- **broken.onnx**" in lines
    what = "1 of 4,500 values are NaN or infinite where the reference has a number"
    assert f"  - **what** {what}; the data itself holds 1 such values" in lines
    assert "- Note: input 'image' holds 1 values that are NaN or infinite" in lines
    told = f"- Data: dict of arrays, 450 samples, sha256 {report.data.sha256[:12]}. Budget: the "
    assert f"{told}default, except rel_l2 0.05." in lines
    assert "- **open.tflite** outputs matched by position" in lines
    assert lines[-1] == f"| open.tflite | {'ab' * 32} |"
    assert len(lines) < 40

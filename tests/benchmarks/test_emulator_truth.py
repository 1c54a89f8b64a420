"""The page of the emulator's truth: its figures follow from its rows, and its rows are today's."""

import re
from types import ModuleType

import pytest
import repository
import scripts
from repository import BENCHMARKS, DOCS

PAGE = DOCS / "emulator-truth.md"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return scripts.script(BENCHMARKS / "emulator_truth.py")


def rows() -> dict[str, list[str]]:
    """The cells of the page's table of models, by name."""
    table = [list(row.values()) for row in repository.table("emulator-truth")]
    return {cells[0]: cells[1:] for cells in table}


def made(script: ModuleType, name: str, verdict: str, drift: float, truth: str, seen: float):
    return script.Row(name, "adversarial", verdict, drift, {}, {"NumPy": seen}, {"NumPy": truth})


def test_false_verdicts_are_counted_named_and_bounded(script: ModuleType) -> None:
    sound = [made(script, f"s{i}", "PASS", 1e-3 * i, "PASS", 1e-3 * i) for i in range(1, 5)]
    lost = [made(script, f"l{i}", "FAIL", 0.5, "FAIL", 0.5) for i in range(10)]
    text = script.page([*sound, *lost])
    assert "Of the 10 files that an oracle loses, 0 get a PASS by default: " in text
    assert "at most 25.9% (95% confidence)" in text
    assert "| NumPy | 4 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 |" in text
    assert "| NumPy | FAIL | 0 | 0 | 10 |" in text
    wrong = [made(script, "blind", "PASS", 1e-4, "FAIL", 1.0)]
    wrong += [made(script, "strict", "FAIL", 1.0, "PASS", 1e-4)]
    text = script.page([*sound, *lost, *wrong])
    assert "11 files that an oracle loses, 1 get a PASS by default (blind)" in text
    assert "1 get a FAIL (strict)" in text


def test_the_page_has_forty_models_and_no_false_verdict() -> None:
    text = PAGE.read_text()
    assert len(rows()) >= 40
    assert len([cells for cells in rows().values() if cells[0] == "trained"]) >= 5
    found = re.search(r"Of the (\d+) files that an oracle loses, 0 get a PASS", text)
    assert found is not None
    assert int(found[1]) >= 20
    assert re.search(r"files that no oracle\s+loses, 0 get a FAIL\.", text)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rms_residual", "softmax_by_hand_sound", "counting_lstm_sound"])
def test_rows_are_todays(script: ModuleType, name: str) -> None:
    row = script.row_of(name, "adversarial")
    cells = rows()[name]
    assert cells[1] == row.verdict
    assert float(cells[2]) == pytest.approx(row.emulated, rel=0.05)
    assert float(cells[3].split()[0]) == pytest.approx(row.drifts["NumPy"], rel=0.05)
    ratio = row.ratio(script.MATCHING)
    assert ratio is not None
    assert script.BOUNDS[0] <= ratio <= script.BOUNDS[1]

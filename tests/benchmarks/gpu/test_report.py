"""benchmarks/gpu/report.py: what its tables say."""

import json
import math

import pytest
from repository import BENCHMARKS
from scripts import script

report = script(BENCHMARKS / "gpu" / "report.py")


def test_drift_that_is_foretold_too_small_shows_in_the_ratio():
    found = report.fit([(1e-4, 2e-4), (1e-3, 2e-3), (1e-2, 2e-2), (1e-2, math.inf), (0.0, 1e-3)])
    assert (found.count, found.slope, found.ratio, found.spread) == pytest.approx((3, 1, 0.5, 1))
    assert report.fit([(1e-4, 1e-4), (1e-3, 1e-3), (0.0, 1e-3)]) is None  # two make no line


def test_a_pass_that_the_card_fails_is_counted_with_its_bound():
    rows, sentence = report.confusion(
        [("PASS", "PASS")] * 58 + [("PASS", "FAIL"), ("FAIL", "FAIL")]
    )
    assert rows[1] == ["PASS", "58", "0", "1"]
    assert sentence.startswith("1 of 59 models that were foretold to pass fail on the card")
    assert "at most 7.8 %" in sentence


def case(foretold: object, measured: object, verdicts=("PASS", "PASS"), elsewhere=()) -> dict:
    def told(drift: object, verdict: str) -> dict:
        return {"drift": drift, "verdict": verdict, "reasons": ["so it is"]}

    return {
        "group": "trained",
        "predicted": {"ort-cuda:1.31": told(foretold, verdicts[0])},
        "ways": {"fp16": {"elsewhere": list(elsewhere), "drift": told(measured, verdicts[1])}},
    }


@pytest.mark.parametrize(
    ("odd", "sentence"),
    [
        (case(1e-4, 9e-4), "measured drift is 9 times the foretold one"),
        (case(1e-4, "inf"), "drift 1.0e-04 was foretold, not finite measured"),
        (case(1e-4, 2e-4, ("PASS", "FAIL")), "PASS was foretold, FAIL measured: so it is"),
        (case(1e-4, 1e-4, elsewhere=["Einsum"]), "Einsum ran on the CPU"),
    ],
)
def test_a_surprise_is_told(odd: dict, sentence: str):
    (line,) = report.surprises({"model": odd}, "ort-cuda:1.31")
    assert "model" in line
    assert sentence in line


def test_a_model_as_foretold_surprises_nobody():
    cases = {"one": case(1e-4, 2e-4), "other": case("inf", "inf", ("FAIL", "FAIL"))}
    assert list(report.surprises(cases, "ort-cuda:1.31")) == []


def test_results_without_a_card_never_reach_the_page(tmp_path, monkeypatch, capsys):
    (tmp_path / "results").mkdir()
    document = {
        "schema": report.SCHEMA,
        "stage": "sharing",
        "cases": {"mps": {"absent": "none"}},
        "left": [],
        "machine": {
            "gpu": None,
            "cores": 2,
            "python": "3.12",
            "versions": {},
            "date": "2026-01-01",
        },
    }
    (tmp_path / "results" / "sharing.json").write_text(json.dumps(document))
    monkeypatch.setattr(report, "PAGE", tmp_path / "gpu.md")
    arguments = ["report.py", "--results", str(tmp_path), "--output", str(tmp_path / "gpu.md")]
    monkeypatch.setattr("sys.argv", arguments)
    assert report.main() == 2
    assert not (tmp_path / "gpu.md").exists()
    assert "measured without a card" in capsys.readouterr().err
    arguments[-1] = str(tmp_path / "rehearsal.md")
    assert report.main() == 0
    assert "A REHEARSAL ON A CPU" in (tmp_path / "rehearsal.md").read_text()

"""JSON: lossless, strict, and described by the published schema."""

import json
from pathlib import Path

import jsonschema
import pytest
from report_schema import schema

from tfmp.converters.report import jsonio
from tfmp.converters.report.jsonio import load, to_json
from tfmp.converters.report.model import DriftReport
from tfmp.converters.shared.errors import InputError

PUBLISHED = Path(jsonio.__file__).with_name("drift-2.schema.json")


def changed(report: DriftReport, **changes: object) -> dict[str, object]:
    return {**report.to_dict(), **changes}


def test_round_trip_is_lossless(report, tmp_path: Path, hostile_report) -> None:
    path = report.save(tmp_path / "drift.json")
    # repr: NaN is not equal to itself, and every bit of a float shows.
    assert repr(load(path)) == repr(report)
    assert to_json(load(path)) == path.read_text(encoding="utf-8")
    again = DriftReport.from_dict(json.loads(to_json(hostile_report)))
    assert again.candidates[0].outputs[0].name == hostile_report.candidates[0].outputs[0].name
    document = changed(report, later="key")
    document["candidates"][0]["later"] = 1
    assert repr(DriftReport.from_dict(document)) == repr(report)


def test_nonfinite_numbers_are_words(report) -> None:
    output = report.to_dict()["candidates"][1]["outputs"][0]
    assert (output["rel_l2"], output["sqnr_db"]) == ("Infinity", "-Infinity")
    json.loads(to_json(report), parse_constant=lambda word: pytest.fail(f"bare {word}"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"schema": "tfmp.drift/3"},
            "not a drift report: expected an object with schema 'tfmp.drift/2', received "
            "'tfmp.drift/3'. Name a JSON file that tfmp-convert wrote; if "
            "a later tfmp did, update this one.",
        ),
        (
            {"verdict": "MAYBE"},
            "report.verdict is 'MAYBE' (str), expected one of PASS, FAIL, INCONCLUSIVE; the "
            "document was changed. Write the report again with tfmp-convert.",
        ),
        ({"candidates": {}}, "report.candidates is {} (dict), expected a list"),
        ({"environment": {"a": 1}}, "report.environment.a is 1 (int), expected a text"),
        (
            {"budget": {"rel_l2": "small"}},
            "report.budget.rel_l2 is 'small' (str), expected a number",
        ),
        ({"budget": {"rel_l2": True}}, "report.budget.rel_l2 is True (bool), expected a number"),
        ({"budget": {"min_samples": True}}, "is True (bool), expected a whole number"),
        ({"data": {"source": "x"}}, "report.data has no 'samples'; the document was cut"),
        ({"data": None}, "report.data is None (NoneType), expected an object"),
    ],
)
def test_refusals(report, change, message) -> None:
    with pytest.raises(InputError) as caught:
        DriftReport.from_dict(changed(report, **change))
    assert message in str(caught.value)


def test_files_that_are_no_reports(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read the report .*none\.json.*: No such file"):
        load(tmp_path / "none.json")
    path = tmp_path / "broken.json"
    path.write_text("{")
    with pytest.raises(InputError, match=r"broken\.json' is not JSON: "):
        load(path)
    path.write_text("[]")
    with pytest.raises(InputError, match=r"broken\.json': not a drift report: .* received 'list'"):
        load(path)


def test_the_published_schema_is_the_dataclasses() -> None:
    assert json.loads(PUBLISHED.read_text(encoding="utf-8")) == schema(), (
        "run: python tests/support/report_schema.py > converters/report/drift-2.schema.json"
    )
    silent = [
        f"{name}.{key}"
        for name, definition in schema()["$defs"].items()
        for key, value in definition["properties"].items()
        if key != "schema" and not value.get("description")
    ]
    assert silent == []


def test_the_schema_accepts_reports_and_refuses_others(report) -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    validator = jsonschema.Draft202012Validator(schema())
    document = json.loads(to_json(report))
    validator.validate(document)
    for change in ({"verdict": "MAYBE"}, {"schema": "tfmp.drift/3"}, {"candidates": [{}]}):
        assert not validator.is_valid({**document, **change})

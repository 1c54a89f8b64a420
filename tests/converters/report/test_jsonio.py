"""JSON: lossless, strict, described by the schema; changed and earlier reports."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from report_schema import schema
from repository import SUPPORT

from tfmp.converters.drift.budget import DriftBudget
from tfmp.converters.drift.compare import Comparison
from tfmp.converters.report import jsonio
from tfmp.converters.report.jsonio import load, to_json
from tfmp.converters.report.merge import merge_reports
from tfmp.converters.report.model import CandidateEvidence, DriftReport, Evidence
from tfmp.converters.shared.errors import InputError
from tfmp.converters.shared.tensors import TensorSpec

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


# Of the first version that wrote schema tfmp.drift/1.
RECORDED = SUPPORT / "recorded"


@pytest.mark.parametrize("labels", ["classes", "numbers"])
def test_the_first_reports_are_shown_and_not_judged_again(labels: str, tmp_path: Path) -> None:
    report = load(RECORDED / f"first_drift_{labels}.json")
    assert merge_reports([report]).verdict == "PASS"
    (candidate,) = report.candidates
    assert candidate.outputs[0].samples == candidate.labels[0].samples == 400
    for suffix in (".html", ".md", ".xml", ".json"):
        report.save(tmp_path / f"again{suffix}")
    for again in (lambda: report.judged_by(DriftBudget()), lambda: merge_reports([report] * 2)):
        with pytest.raises(InputError, match=r"an earlier version .* Validate the files again"):
            again()


@pytest.fixture
def documents(report) -> list[dict[str, Any]]:
    """A report of four candidates, and one with labels of both kinds."""
    generator = np.random.default_rng(0)
    truth = generator.integers(0, 4, (80, 6))
    outputs = {
        "tags": np.eye(4, dtype=np.float32)[truth] * 5,
        "price": generator.standard_normal((80, 2)).astype(np.float32),
    }
    specs = [
        TensorSpec(name, (None, *array.shape[1:]), "float32") for name, array in outputs.items()
    ]
    comparison = Comparison("c", specs, specs)
    other = {name: array + np.float32(0.01) for name, array in outputs.items()}
    other["tags"][:2] = 0
    labels = {"tags": truth, "price": outputs["price"] + np.float32(0.1)}
    comparison.update(outputs, other, labels, np.arange(80, dtype=np.uint64))
    first = report.candidates[0]
    candidate = CandidateEvidence(
        "c", "onnx", first.runner, outputs=comparison.outputs(), labels=comparison.labels()
    )
    labelled = DriftReport.judged(
        Evidence(report.reference, (candidate,), report.data), report.budget
    )
    return [report.to_dict(), labelled.to_dict()]


def answer(document: Any, folder: Path) -> str:
    """The message that refuses a document; "" if it is judged and shown."""
    try:
        report = DriftReport.from_dict(document)
        report.judged_by(DriftBudget(rel_l2=0.003)).save(folder / "again.html")
        for suffix in (".json", ".md", ".xml"):
            report.save(folder / f"again{suffix}")
    except InputError as error:
        return str(error)
    return ""


FAR = 10**400
HALF = "half of a pair: \ud800"


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (
            "data.sha256",
            "zz",
            r"'zz' \(str\), expected a text of the form \[0-9a-f\]\{64\}; the doc",
        ),
        ("data.sha256", "AB" * 32, "expected a text of the form"),
        ("data.sha256", f"{'0' * 63}\n", "expected a text of the form"),
        ("reference.sha256", "0x" + "0" * 62, "expected a text of the form"),
        ("candidates.0.sha256", "`# heading", "expected a text of the form"),
        ("candidates.1.explanation.worst.0.thumbnail", "<svg>", "expected a text of the form"),
        (
            "data.samples",
            -1,
            f"-1 \\(int\\), expected a number from 0 to {2**63 - 1}; the document",
        ),
        ("data.samples", 2**63, "expected a number from 0 to"),
        ("data.nonfinite.image", -7, "expected a number from 0 to"),
        ("reference.size_bytes", -1, "expected a number from 0 to"),
        (
            "candidates.0.outputs.0.totals.values",
            FAR,
            r"100+\.\.\. \(int\), expected a number up to",
        ),
        ("budget.rel_l2", FAR, r"0\.\.\. \(int\), expected a number up to 1.8e\+308"),
        ("reference.name", HALF, "expected a text in Unicode, without halves of surrogate pairs"),
        ("environment", {HALF: "1"}, r"a key of report\.environment is .* in Unicode"),
        ("candidates.0.reasons", ["x" * 10**6], ""),
        ("candidates.0.name", ["x" * 10**6], r"\['x{62}\.\.\. \(list\), expected a text"),
    ],
)
def test_each_field_keeps_its_limits(
    documents, place: str, value: object, message: str, tmp_path: Path
) -> None:
    document = copy.deepcopy(documents[0])
    *way, last = (int(key) if key.isdecimal() else key for key in place.split("."))
    part = document
    for key in way:
        part = part[key]
    assert last in part or isinstance(last, int)
    part[last] = value
    found = answer(document, tmp_path)
    assert bool(found) == bool(message)
    assert re.search(message, found)
    assert not message or re.sub(r"\.(\d+)", r"[\1]", place) in found


def test_a_document_without_a_floor_is_named(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text('{"schema": "tfmp.drift/1", "verdict": ' + "[" * 100_000 + "]" * 100_000 + "}")
    with pytest.raises(InputError, match=r"deep\.json' is not JSON: it is nested too deeply"):
        load(path)


def test_derived_numbers_follow_from_totals_that_agree(documents) -> None:
    document = copy.deepcopy(documents[1])
    document["candidates"][0]["outputs"][0]["totals"]["argmax"]["changed"] = 10**9
    with pytest.raises(InputError, match=r"contradict one another .* Write the report again"):
        DriftReport.from_dict(document)
    document = copy.deepcopy(documents[1])
    right = document["candidates"][0]["outputs"][0]
    document["candidates"][0]["outputs"][0] = {**right, "decision": "by whim", "changed": None}
    output = DriftReport.from_dict(document).candidates[0].outputs[0]
    assert output.decision == right["decision"] == "argmax"
    assert output.changed == right["changed"] > 0

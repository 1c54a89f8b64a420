"""JUnit: what CI servers count."""

from dataclasses import replace
from xml.etree import ElementTree

from tfmp.converters.report.junit import to_junit


def test_suites_cases_and_counts(report) -> None:
    root = ElementTree.fromstring(to_junit(report))
    assert root.tag == "testsuites"
    suites = {suite.get("name"): suite for suite in root}
    assert list(suites) == [candidate.name for candidate in report.candidates]
    good = suites["good.onnx"]
    assert [case.get("name") for case in good.iter("testcase")] == [
        "probs: rel_l2",
        "probs: sample_rel_l2",
        "probs: flip_rate",
        "probs: class_flip_rate",
        "probs: accuracy_drop",
        "probs: macro_f1_drop",
    ]
    assert (good.get("tests"), good.get("failures"), good.get("errors")) == ("6", "0", "0")
    for attribute, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error")):
        for suite in root:
            assert int(suite.get(attribute, "-1")) == len(list(suite.iter(tag)))


def test_no_two_cases_have_one_name(report) -> None:
    twice = replace(report, candidates=(report.candidates[0], report.candidates[0]))
    root = ElementTree.fromstring(to_junit(twice))
    names = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    assert len(set(names)) == len(names) == 12
    assert ("good.onnx", "probs: rel_l2 (2)") in names


def test_over_budget_is_a_failure_and_undecided_an_error(report) -> None:
    root = ElementTree.fromstring(to_junit(report))
    (failure,) = root[1].find("testcase[@name='probs: nonfinite']")
    assert (failure.tag, failure.get("type")) == ("failure", "FAIL")
    assert failure.get("message") == report.candidates[1].reasons[0]
    (error,) = root[2].find("testcase[@name='probs: flip_rate']")
    assert (error.tag, error.get("type")) == ("error", "INCONCLUSIVE")
    (crash,) = root[3].find("testcase")
    assert crash.get("message") == "ONNX Runtime cannot load the model: bad node"

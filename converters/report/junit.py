"""The report as JUnit XML: a suite for each candidate, a case for each check."""

from collections import Counter
from xml.etree import ElementTree

from tfmp.converters.drift.verdict import Verdict
from tfmp.converters.report.model import CandidateReport, DriftReport
from tfmp.shared.html_page import printable


def to_junit(report: DriftReport) -> str:
    """JUnit XML as CI servers read it.

    A check over budget is a failure. A check that too little data leaves open is an error, so that
    it does not turn a build green.
    """
    root = ElementTree.Element("testsuites", name=f"drift of {printable(report.reference.name)}")
    root.extend(_suite(candidate) for candidate in report.candidates)
    _number_alike(root)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _number_alike(root: ElementTree.Element) -> None:
    """Numbers cases of one name: CI servers show one of them only."""
    seen: Counter[tuple[str, str]] = Counter()
    for case in root.iter("testcase"):
        name = case.get("name", "")
        key = case.get("classname", ""), name
        seen[key] += 1
        if seen[key] > 1:
            case.set("name", f"{name} ({seen[key]})")


def _suite(candidate: CandidateReport) -> ElementTree.Element:
    name = printable(candidate.name)
    verdicts = [check.verdict for check in candidate.checks] or [candidate.verdict]
    suite = ElementTree.Element(
        "testsuite",
        name=name,
        tests=str(len(verdicts)),
        failures=str(verdicts.count(Verdict.FAIL)),
        errors=str(verdicts.count(Verdict.INCONCLUSIVE)),
    )
    if not candidate.checks:
        _case(suite, name, "verdict", candidate.verdict, "; ".join(candidate.reasons))
    for check in candidate.checks:
        case = f"{check.output}: {check.name}" if check.output else check.name
        _case(suite, name, printable(case), check.verdict, check.text)
    return suite


def _case(
    suite: ElementTree.Element, candidate: str, name: str, verdict: Verdict, text: str
) -> None:
    case = ElementTree.SubElement(suite, "testcase", classname=candidate, name=name)
    text = printable(text)
    if verdict is Verdict.PASS:
        ElementTree.SubElement(case, "system-out").text = text
    else:
        tag = "failure" if verdict is Verdict.FAIL else "error"
        ElementTree.SubElement(case, tag, type=str(verdict), message=text)

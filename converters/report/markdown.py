"""The report as Markdown: short enough for a pull request, and as a section of a model card."""

from tfmp.converters.drift.verdict import Verdict
from tfmp.converters.report.contents import conclusion, latency_table
from tfmp.converters.report.model import DriftReport
from tfmp.converters.report.summary import headline, scope
from tfmp.shared.html_page import SIGNS
from tfmp.shared.reporting import Section, Table, to_markdown as written
from tfmp.shared.wording import alike_once


def to_markdown(report: DriftReport) -> str:
    """A heading with the verdict, the table of candidates, the reasons, data, budget and hashes."""
    heading = f"{SIGNS[report.verdict]} Drift report: {report.verdict}"
    told = []
    for one in report.candidates:
        facts = scope(report, one) if one.verdict is not Verdict.PASS else []  # told there
        told += [(f"{one.name} {name}", text) for name, text in facts]
        told += [(one.name, note) for note in alike_once(one.notes)]
    notes = Section("Notes", facts=tuple(told))
    timed = Section("Latency", tables=(latency_table(report),))
    columns = ("File", "SHA-256")
    hashes = tuple((file.name, file.sha256) for file in report.models if file.sha256)
    files = Section("Files of this report", tables=(Table(columns, hashes, words=columns),))
    return written(heading, headline(report), [conclusion(report), notes, timed, files])

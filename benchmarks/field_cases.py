"""Writes docs/field-cases.md: public reports of FP16 and export trouble, rebuilt and run again.

Every case of `tests/support/field_threads.py` goes through the tool of its report and through
`tfmp.converters.convert`.

Run: pip install onnxconverter-common; python benchmarks/field_cases.py
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scaffold import DOCS, parser, versions

PAGE = DOCS / "field-cases.md"

import onnx
from field_case import FieldCase
from field_threads import field_cases
from field_tools import CONTROL, TOOLS, drift_text, faults_of, first_words
from pages import table, write_page
from quiet import quiet

from tfmp.converters import convert, validate
from tfmp.converters.report import DriftReport
from tfmp.converters.shared.errors import InputError

PACKAGES = "onnxconverter-common onnxruntime-gpu onnxruntime onnx tf2onnx tensorflow keras".split()


@dataclass(frozen=True)
class Outcome:
    """What came of one model in one tool.

    Attributes:
        fault: why there is no file that runs; else "".
        check: the complaint of ONNX's check about a file that runs all the same; else "".
        verdict: of `validate` on the file; "" without one.
        drift: relative L2 distance of the worst output, where outputs have distances.
        reason: without a verdict, the sentence that tells the result.
    """

    fault: str = ""
    check: str = ""
    verdict: str = ""
    drift: float | None = None
    reason: str = ""

    def __str__(self) -> str:
        if self.fault:
            return f"no: {self.fault}"
        if not self.verdict:
            return self.reason
        invalid = f"not valid ONNX ({self.check}); " if self.check else ""
        return f"{invalid}{self.verdict}{drift_text(self.drift)}"


@dataclass(frozen=True)
class Row:
    """One case with its results.

    Attributes:
        case: the report.
        tool: the result of the report's tool; None where it cannot be run here.
        control: where it cannot, the result of plain FP16.
        plain: tfmp's result in FP16.
        mended: tfmp's result with mixed precision, or repaired; None where `plain` needs neither.
    """

    case: FieldCase
    tool: Outcome | None
    control: Outcome | None
    plain: Outcome
    mended: Outcome | None

    @property
    def flag(self) -> str:
        """The option that `mended` is the result of."""
        return "--precision mixed" if self.case.to == "onnx" else "--repair"

    def tool_cell(self) -> str:
        """The tool's result for the table."""
        if self.tool is not None:
            return str(self.tool)
        return f"{self.case.tool}" + (f"; plain FP16: {self.control}" if self.control else "")

    def tfmp_cell(self) -> str:
        """tfmp's results for the table."""
        found = str(self.plain)
        return found if self.mended is None else f"{found}; with `{self.flag}`: {self.mended}"


def run_tool(case: FieldCase, name: str, folder: Path) -> Outcome | None:
    """A tool's own result; tfmp's handlers in tf2onnx, once loaded, would change it."""
    if name not in TOOLS:
        return None
    path = folder / f"tool.{case.to}"
    try:
        with quiet():
            TOOLS[name](case.model(), path, case)
    except ImportError as error:
        return Outcome(reason=f"not run here: {first_words(error)}")
    except Exception as error:  # whatever a tool raises
        return Outcome(fault=f"{type(error).__name__}: {first_words(error)}")
    faults = faults_of(path, case.batch())
    return Outcome(faults.run, faults.check, "" if faults.run else _WRITTEN)


_WRITTEN = "written"


def judged(case: FieldCase, written: Outcome | None, folder: Path) -> Outcome | None:
    """The result with the verdict on the file that a tool wrote."""
    if written is None or written.verdict != _WRITTEN:
        return written
    try:
        path = folder / f"tool.{case.to}"
        with quiet():
            report = validate(_model(case, folder), path, case.batch(), emulate=case.emulate)
    except InputError as error:
        return replace(written, verdict="not judged", reason=first_words(error))
    return replace(_outcome(report), check=written.check)


def run_tfmp(case: FieldCase, folder: Path) -> tuple[Outcome, Outcome | None]:
    """tfmp's results: in FP16, and where that fails mixed or repaired."""
    plain = _convert(case, folder, "fp16")
    if plain.verdict != "FAIL":
        return plain, None
    return plain, _convert(case, folder, "mended")


def _convert(case: FieldCase, folder: Path, kind: str) -> Outcome:
    options = dict(case.options)
    precision = "fp16"
    if kind == "mended" and case.to == "onnx":
        precision = "mixed"
    elif kind == "mended":
        options["repair"] = True
    path = folder / f"{kind}.{case.to}"
    try:
        with quiet():
            artifact = convert(
                _model(case, folder), case.to, path, precision, case.batch(),
                emulate=case.emulate, force=True, **options,
            )  # fmt: skip
    except InputError as error:
        return Outcome(fault=first_words(error))
    faults = faults_of(path, case.batch())
    if faults.run:
        return Outcome(faults.run, faults.check)
    assert artifact.report is not None
    found = _outcome(artifact.report)
    return replace(found, check=faults.check)


def _model(case: FieldCase, folder: Path) -> Any:
    """The case's model as users have it: an ONNX file, or a Keras model."""
    made = case.model()
    if not isinstance(made, onnx.ModelProto):
        return made
    path = folder / "model.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def _outcome(report: DriftReport) -> Outcome:
    candidate = report.candidates[0]
    drifts = [output.rel_l2 for output in candidate.outputs if output.rel_l2 is not None]
    drift = max(drifts, default=None)
    return Outcome("", "", str(candidate.verdict.value), drift)


def run(cases: list[FieldCase], folder: Path) -> Iterator[Row]:
    """Runs cases: all tools first."""
    folders = {case.name: folder / case.name for case in cases}
    for one in folders.values():
        one.mkdir()
    tools = {case.name: run_tool(case, case.tool, folders[case.name]) for case in cases}
    for case in cases:
        own, tool, control = folders[case.name], tools[case.name], None
        if tool is None and case.to == "onnx":
            control = judged(case, run_tool(case, CONTROL, own), own)
        yield Row(case, judged(case, tool, own), control, *run_tfmp(case, own))


def page(rows: list[Row]) -> str:
    """The page."""
    cells: list[Sequence[str]] = [
        ("#", "report", "what goes wrong there", "its tool today", "tfmp")
    ]
    for number, row in enumerate(rows, 1):
        link = f"[{row.case.thread}]({row.case.link})"
        cells.append((str(number), link, row.case.title, row.tool_cell(), row.tfmp_cell()))
    return "\n".join(
        ["# Field cases", "", *_introduction(rows), "", table(cells, words=len(cells[0])), ""]
    )


def _introduction(rows: list[Row]) -> list[str]:
    tools = [row.tool for row in rows if row.tool and (row.tool.fault or row.tool.verdict)]
    sound = sum(tool.verdict == "PASS" and not tool.check for tool in tools)
    files = sum(not (row.plain.fault or row.plain.check) for row in rows)
    passed = sum("PASS" in (row.plain.verdict, getattr(row.mended, "verdict", "")) for row in rows)
    return [
        f"Written by `python benchmarks/field_cases.py` with {versions(PACKAGES)}.",
        "",
        f"{len(rows)} public reports of trouble with FP16 or with exports, each rebuilt as a small "
        "model with seeded weights and samples that shows the trouble. The tool of the report is "
        "run in its version of today, and so is tfmp. Both files are judged alike: ONNX's full "
        "check, loading and running in ONNX Runtime or LiteRT, then `tfmp-convert validate` with "
        "its default budget, where FP16 arithmetic is emulated (ONNX) or forced on the CPU "
        '(TFLite). "no" stands for a file that is missing, invalid or cannot be run; drift is the '
        "relative L2 distance of the worst output from float32. Where the tool needs TensorRT, a "
        "GPU or a browser, plain FP16 shows that the rebuilt model has the trouble: every node in "
        "FP16 and every constant rounded, by onnxconverter-common without its limits.",
        "",
        f"- The tools of the reports ran on {len(tools)} models: {sound} files are valid and PASS.",
        f"- tfmp wrote a valid file for {files} of {len(rows)}; {passed} PASS, in plain FP16 or "
        "with the option that the FAIL names.",
    ]


def main() -> None:
    """Runs and writes."""
    given = parser(__doc__)
    given.add_argument("--only", default="", help="cases whose names have this; no page")
    given.add_argument("--quick", action="store_true", help="leave out what is slow; no page")
    options = given.parse_args()
    cases = [case for case in field_cases(not options.quick) if options.only in case.name]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for row in run(cases, Path(folder)):
            rows.append(row)
            print(row.case.thread, row.tool_cell(), row.tfmp_cell(), sep=" | ", flush=True)
    text = page(rows)
    if options.only or options.quick:
        print(text)
    else:
        write_page(PAGE, text)


if __name__ == "__main__":
    main()

"""Verdict cases of every kind: what the verdict has to be right about, harmful and benign.

They were written by somebody who did not know the rules of the verdict.
"""

from importlib import import_module
from pathlib import Path

from verdict_case import Case

_FILES = sorted(path.stem for path in Path(__file__).parent.glob("verdict_cases_*.py"))

# By the end of their file's name.
TABLES: dict[str, list[Case]] = {
    name.removeprefix("verdict_cases_"): import_module(name).CASES for name in _FILES
}
CASES: list[Case] = [case for table in TABLES.values() for case in table]

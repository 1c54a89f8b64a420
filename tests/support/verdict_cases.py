"""Verdict cases of every kind: what the verdict has to be right about, harmful and benign.

They were written by somebody who did not know the rules of the verdict.
"""

from importlib import import_module
from pathlib import Path

from verdict_case import Case

_FILES = sorted(path.stem for path in Path(__file__).parent.glob("verdict_cases_*.py"))

CASES: list[Case] = [case for name in _FILES for case in import_module(name).CASES]

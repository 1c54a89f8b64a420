"""Verdict cases of every kind: what the verdict has to be right about, harmful and benign.

They were written by somebody who did not know the rules of the verdict.
"""

import verdict_cases_classes
import verdict_cases_dense
import verdict_cases_detection
import verdict_cases_evidence
import verdict_cases_fields
import verdict_cases_hidden
import verdict_cases_numbers
import verdict_cases_signals
from verdict_case import Case

CASES: list[Case] = [
    *verdict_cases_classes.CASES,
    *verdict_cases_dense.CASES,
    *verdict_cases_detection.CASES,
    *verdict_cases_numbers.CASES,
    *verdict_cases_signals.CASES,
    *verdict_cases_evidence.CASES,
    *verdict_cases_fields.CASES,
    *verdict_cases_hidden.CASES,
]

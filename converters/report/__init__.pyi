from .audit import (
    AUDIT_SUFFIXES as AUDIT_SUFFIXES,
    print_audit as print_audit,
    save_audit as save_audit,
)
from .contents import print_report as print_report, print_verdict as print_verdict
from .explanation import (
    Culprit as Culprit,
    Explanation as Explanation,
    LayerError as LayerError,
    WorstSample as WorstSample,
)
from .jsonio import load as load
from .merge import check_same_run as check_same_run, join as join, merge_reports as merge_reports
from .model import (
    Artifact as Artifact,
    CandidateEvidence as CandidateEvidence,
    CandidateReport as CandidateReport,
    DriftReport as DriftReport,
    Evidence as Evidence,
    FileNotes as FileNotes,
    Latency as Latency,
    ReferenceReport as ReferenceReport,
    Stage as Stage,
    check_path as check_path,
    render as render,
)
from .summary import cause as cause, nonfinite_notes as nonfinite_notes, size_text as size_text

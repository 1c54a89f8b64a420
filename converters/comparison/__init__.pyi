from .bench import Bench as Bench, Plan as Plan
from .devices import Placing as Placing, choose as choose
from .drift_stages import make_baselines as make_baselines
from .trials import (
    Explain as Explain,
    candidate_files as candidate_files,
    candidate_findings as candidate_findings,
)

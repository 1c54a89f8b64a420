from .bench import Bench as Bench
from .compare import (
    Compare as Compare,
    also_with_sizes as also_with_sizes,
    compare_here as compare_here,
)
from .drift_stages import make_baselines as make_baselines
from .one_by_one import needs_one_by_one as needs_one_by_one
from .plan import JUDGING as JUDGING, Plan as Plan
from .trials import CandidateFile as CandidateFile, candidate_files as candidate_files

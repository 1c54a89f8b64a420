from .check import (
    Check as Check,
    Verdict as Verdict,
    doubt as doubt,
    fault as fault,
    number_beside as number_beside,
    overall as overall,
    p_over as p_over,
)
from .elsewhere import Elsewhere as Elsewhere, failures as failures
from .judgement import check_overrides as check_overrides, judge as judge
from .power import (
    CHANCES as CHANCES,
    Outlook as Outlook,
    accuracy_outlook as accuracy_outlook,
    flip_outlook as flip_outlook,
)
from .slice_errors import (
    deviation_of as deviation_of,
    is_guess as is_guess,
    values_of_each as values_of_each,
)
from .variation import (
    CONSTANT as CONSTANT,
    CORRECT as CORRECT,
    DECIDING as DECIDING,
    FEW_ROUNDINGS as FEW_ROUNDINGS,
    HALF_SPACING as HALF_SPACING,
    MORE as MORE,
    NO_NUMBERS as NO_NUMBERS,
    ONE_NUMBER as ONE_NUMBER,
    VARIATION as VARIATION,
    live_samples as live_samples,
)

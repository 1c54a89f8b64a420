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

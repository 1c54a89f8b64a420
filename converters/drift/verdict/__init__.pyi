from .check import (
    Check as Check,
    Verdict as Verdict,
    overall as overall,
)
from .judgement import check_overrides as check_overrides, judge as judge
from .power import (
    Outlook as Outlook,
    accuracy_outlook as accuracy_outlook,
    flip_outlook as flip_outlook,
)

from .check import Check as Check, Verdict as Verdict, overall as overall
from .judgement import check_overrides as check_overrides, judge as judge

from .assignments import Assignments as Assignments
from .emulate import (
    FP32_INSIDE as FP32_INSIDE,
    emulated as emulated,
    fusions_of as fusions_of,
)
from .facts import LITERT_CPU as LITERT_CPU
from .profiles import (
    GPU as GPU,
    Profile as Profile,
    profile_of as profile_of,
    profiles_of as profiles_of,
    runtimes as runtimes,
)

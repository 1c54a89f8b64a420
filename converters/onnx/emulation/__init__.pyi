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
from .switches import (
    SwitchedSession as SwitchedSession,
    name_nodes as name_nodes,
    switchable_nodes as switchable_nodes,
)

from .emulate import (
    FP32_INSIDE as FP32_INSIDE,
    computes_otherwise as computes_otherwise,
    emulated as emulated,
    fact_about as fact_about,
    fusions_of as fusions_of,
)
from .facts import LITERT_CPU as LITERT_CPU, Fact as Fact
from .profiles import GPU as GPU, OTHERS as OTHERS, Profile as Profile, profile_of as profile_of
from .switches import (
    SwitchedSession as SwitchedSession,
    name_nodes as name_nodes,
    switchable_nodes as switchable_nodes,
)

from .emulate import (
    FP32_INSIDE as FP32_INSIDE,
    emulated as emulated,
    widen_attributes as widen_attributes,
)
from .profiles import GPU as GPU, Profile as Profile
from .switches import (
    SwitchedSession as SwitchedSession,
    name_nodes as name_nodes,
    switchable_nodes as switchable_nodes,
)

from .callables import (
    callables_of as callables_of,
    signatures_of as signatures_of,
    tensors_of as tensors_of,
)
from .fillings import fill as fill, lacks as lacks
from .graph import Graph as Graph, Rewrite as Rewrite, inserted as inserted
from .halves import widen as widen, widen_functions as widen_functions
from .loops import rename_functions as rename_functions
from .states import Inlined as Inlined, VariableState as VariableState

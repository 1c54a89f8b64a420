from .callables import (
    callables_of as callables_of,
    signatures_of as signatures_of,
    tensors_of as tensors_of,
)
from .fillings import fill as fill, lacks as lacks
from .graph import (
    Edits as Edits,
    Fillings as Fillings,
    Graph as Graph,
    Rewrite as Rewrite,
)
from .held import captured as captured, writes as writes
from .retracing import Retracing as Retracing, inserted as inserted
from .states import Inlined as Inlined, VariableState as VariableState

from .callables import callables_of as callables_of
from .fillings import fill as fill, lacks as lacks
from .graph import Rewrite as Rewrite, inserted as inserted
from .states import Inlined as Inlined, inlined as inlined
from .trust import code_in as code_in, without_prints as without_prints

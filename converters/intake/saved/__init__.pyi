from .callables import callables_of as callables_of
from .fillings import fill as fill, lacks as lacks
from .graph import Rewrite as Rewrite, inserted as inserted
from .states import Inlined as Inlined, inlined as inlined

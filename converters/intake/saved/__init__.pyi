from .callables import callables_of as callables_of
from .states import Lifted as Lifted, lift_states as lift_states
from .trust import code_in as code_in, without_prints as without_prints

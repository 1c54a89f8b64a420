from .callables import callables_of as callables_of
from .states import Lifted as Lifted, lift_states as lift_states

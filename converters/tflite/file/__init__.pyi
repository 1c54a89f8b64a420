from .contract import (
    MEANING as MEANING,
    accumulation as accumulation,
    allow_accumulation as allow_accumulation,
)
from .interpreter import Interpreter as Interpreter
from .reader import (
    Operator as Operator,
    Signature as Signature,
    TFLiteModel as TFLiteModel,
    layer_of as layer_of,
)
from .signature import (
    SIGNATURE as SIGNATURE,
    restore_names as restore_names,
    safe_names as safe_names,
)
from .sizes import SizeAccount as SizeAccount, account as account

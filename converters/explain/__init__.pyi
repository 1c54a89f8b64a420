from .explainer import Explainer as Explainer
from .opening import opener as opener

"""The audit: values of a model that overflow or vanish in FP16, found before it is converted."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

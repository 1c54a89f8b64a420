"""What of a model overflows or vanishes in FP16, before it is converted."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

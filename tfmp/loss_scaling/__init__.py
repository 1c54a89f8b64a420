"""Loss scaling: the strategies, the optimizer that scales, and its counters."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

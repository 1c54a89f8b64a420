"""Plans of which layer computes in which dtype, and why: made, applied and undone."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

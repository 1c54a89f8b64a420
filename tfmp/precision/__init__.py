"""Which layer of a model computes in which dtype, and why: plans, applied and undone."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

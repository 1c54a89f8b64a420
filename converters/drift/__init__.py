"""Drift: the distance of outputs from the reference's, and the verdict that follows from it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""Traces layers and models, computing nothing, to see what their own code does in 16 bits."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

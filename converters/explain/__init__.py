"""Explains drift: the layer that it comes from, and the samples on which it is largest."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""Rewrites of float32 graphs so that FP16 can hold their values."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""Emulated FP16 arithmetic for machines without it: every FP16 tensor is rounded."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""Gradients kept inside FP16: strategies, the optimizer that scales, and what it counted."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

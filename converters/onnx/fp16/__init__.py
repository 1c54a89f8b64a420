"""The FP16 pass: which node computes in FP16, and the walk that makes it true."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

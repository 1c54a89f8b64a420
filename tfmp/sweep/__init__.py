"""Speed and memory over batch sizes and model sizes, and the largest that fit."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

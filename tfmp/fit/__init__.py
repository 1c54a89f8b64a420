"""A callback that makes `fit` train in mixed precision and reports the training."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

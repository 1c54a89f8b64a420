"""Validation on Ray: the driver reads the samples, workers hold the models and compare."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

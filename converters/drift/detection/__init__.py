"""Detections and other lists: rows that are the same wherever they stand."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

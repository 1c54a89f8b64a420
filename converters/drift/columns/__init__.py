"""Columns and places of outputs: each by its own size, beside the others, and over samples."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

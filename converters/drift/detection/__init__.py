"""Answers that are the same in another form: rows wherever they stand, angles a turn apart."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

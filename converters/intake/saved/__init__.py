"""What a SavedModel holds besides its signatures: states, slots and plain functions."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

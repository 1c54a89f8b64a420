"""A reference and its candidates, run side by side on the same samples."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

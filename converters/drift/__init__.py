"""How far outputs are from the reference, and what that means for a release."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

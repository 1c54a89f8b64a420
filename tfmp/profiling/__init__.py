"""The cost of a training step under each policy, and whether mixed precision pays."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

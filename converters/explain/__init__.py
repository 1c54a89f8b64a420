"""Which layer of a candidate its drift comes from, and on which samples it is largest."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

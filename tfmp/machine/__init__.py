"""Facts about this machine: its devices, drivers and versions, and measured time and memory."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

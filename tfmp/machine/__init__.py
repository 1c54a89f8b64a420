"""What this machine is: devices, drivers and versions, and what its steps and memory cost."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

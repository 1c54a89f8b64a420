"""The work of a program, the limits of a device, and which limit holds the program back."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

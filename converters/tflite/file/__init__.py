"""What a .tflite file holds: its graph, signatures, sizes, and what it allows hardware."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

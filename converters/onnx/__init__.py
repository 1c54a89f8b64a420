"""ONNX files: exported, rewritten to FP16, and emulated."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

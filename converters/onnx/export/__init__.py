"""The export of a TensorFlow graph to a float32 ONNX model."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""How models are opened: Keras models and files, SavedModels, `tf.function`s and ONNX files."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

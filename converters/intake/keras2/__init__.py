"""Files that Keras 1 and 2 wrote, read by Keras 2 itself (the package tf_keras)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

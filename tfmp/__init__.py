"""Mixed-precision training for Keras, and static FP16 models with a proof of their accuracy.

Importing this package imports neither TensorFlow nor Keras: each public name, as `__init__.pyi`
lists them, loads its module on first use.
"""

import lazy_loader

from tfmp.registration import when_keras_is_imported

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

when_keras_is_imported()

"""tf2onnx handlers for TensorFlow ops that Keras 3 emits and tf2onnx lacks or gets wrong.

Importing this package registers them. Each is a composition of standard ONNX ops.
"""

from tfmp.converters.onnx.export.handlers import maths, pictures, spectra

__all__ = ["maths", "pictures", "spectra"]

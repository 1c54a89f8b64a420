"""Static FP16 ONNX and TFLite from any Keras or TensorFlow model, with proof of the cost.

The folder `converters/` is installed and imported as `tfmp.converters`.
"""

import lazy_loader

if __name__ != "tfmp.converters":
    raise ImportError(
        f"this package is `tfmp.converters`, but was imported as {__name__!r}. Install the project "
        "(`pip install -e .`) and write `import tfmp.converters`."
    )

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

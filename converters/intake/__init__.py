"""Models in: Keras models and files, SavedModels, `tf.function`s and ONNX files."""

from tfmp.converters.intake.open import check_model_file, open_source

__all__ = ["check_model_file", "open_source"]

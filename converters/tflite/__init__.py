"""Keras to TFLite with FP16 weights."""

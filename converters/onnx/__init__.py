"""Keras to ONNX, ONNX to FP16, and FP16 arithmetic emulated on a CPU."""

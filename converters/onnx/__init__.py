"""ONNX files: exported, rewritten to FP16, and emulated."""

"""TFLite files: exported, rewritten for FP16, and audited."""

"""Validation on Ray: the driver reads the samples, workers hold the models and compare."""

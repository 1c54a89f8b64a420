"""Tests that need Keras on JAX; `tests/test_backends.py` runs them.

Keras takes its backend once per process: under any other backend nothing here is collected.
"""

import os

if os.environ.get("KERAS_BACKEND") != "jax":
    collect_ignore_glob = ["test_*.py"]

"""Tests that need Keras on PyTorch; `tests/test_backends.py` runs them.

Keras takes its backend once per process: under any other backend nothing here is collected.
"""

import os

if os.environ.get("KERAS_BACKEND") != "torch":
    collect_ignore_glob = ["test_*.py"]

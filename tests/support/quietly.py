"""Runs a script without the frameworks' words: python tests/support/quietly.py SCRIPT [ARG]..."""

import os
import runpy
import sys

from tfmp.shared.framework_start import held_back

with held_back():
    import keras  # noqa: F401
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")

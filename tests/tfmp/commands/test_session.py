"""Keras is loaded for commands, with TensorFlow where there is one."""

import sys

import keras  # noqa: F401  # before TensorFlow is hidden, which is its backend here

from tfmp.commands.session import import_keras


def test_commands_start_without_tensorflow(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)  # as if it were not installed
    import_keras()

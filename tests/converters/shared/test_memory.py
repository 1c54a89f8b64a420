"""Memory that conversions give back."""

import gc
import weakref

import keras
import onnx_ir as ir
import pytest

from tfmp.converters import convert
from tfmp.converters.shared import memory


class Node:
    pass


def _values() -> int:
    return sum(isinstance(one, ir.Value) for one in gc.get_objects())


@pytest.mark.parametrize(("size", "freed"), [(2**27, True), (2**27 - 1, False)])
def test_graphs_are_freed_after_large_files_only(size, freed):
    node = Node()
    node.itself = node
    held = weakref.ref(node)
    gc.disable()
    try:
        del node
        memory.free_graphs(size)
        assert (held() is None) is freed
    finally:
        gc.enable()


def test_a_conversion_leaves_no_graph_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_LARGE_FILE", 1)
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2)])
    gc.collect()
    before = _values()
    gc.disable()
    try:
        convert(model, output=tmp_path / "model.onnx")
        assert _values() <= before
    finally:
        gc.enable()

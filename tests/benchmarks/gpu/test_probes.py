"""benchmarks/gpu/probes.py: what they ask can be seen in the emulator."""

import numpy as np
import onnx_ir as ir
import pytest
from onnx_graphs import run, run_emulated
from repository import BENCHMARKS
from scripts import script

GPU = BENCHMARKS / "gpu"
probes = script(GPU / "probes.py").PROBES
compared = script(GPU / "comparing.py").compared


@pytest.mark.parametrize("name", sorted(probes))
def test_a_probe_is_a_graph_in_both_types(name: str):
    probe = probes[name]
    full, half = probe.model(half=False), probe.model(half=True)
    assert [node.op_type for node in full.graph.node] == [node.op_type for node in half.graph.node]
    types = {value.type.tensor_type.elem_type for value in half.graph.input}
    assert types == {ir.DataType.FLOAT16.value}
    for value in probe.batch().values():
        assert np.array_equal(value.astype(np.float16).astype(np.float32), value)


# Probes whose answers differ between two profiles, and by how many times at least.
TELLING = {
    "cumsum": ("gpu", "ort-cuda:1.31", 5),
    "skip_norm_large": ("ort-cuda:1.31", "ort-cuda:1.26", 100),
    "subnormal_product": ("gpu", "webgpu", 100),
    "matmul_offset": ("gpu", "pessimistic", 5),
    "layer_norm_formula": ("ort-cuda:1.31", "gpu", 100),
}


@pytest.mark.parametrize("name", sorted(TELLING))
def test_a_probe_tells_one_arithmetic_from_another(name: str):
    probe = probes[name]
    batch = probe.batch()
    reference = run(probe.model(half=False), batch)
    one, other, times = TELLING[name]
    drifts = [
        compared(reference, run_emulated(probe.model(half=True), _half(batch), profile)).drift
        for profile in (one, other)
    ]
    assert drifts[0] < 2e-3
    assert drifts[1] > times * drifts[0]


def _half(batch: dict) -> dict:
    return {name: value.astype(np.float16) for name, value in batch.items()}

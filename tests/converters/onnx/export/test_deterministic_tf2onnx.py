"""The same model gives the same bytes in every process."""

import os
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from repository import SUPPORT
from tf2onnx.optimizer import einsum_optimizer

from tfmp.converters.onnx.export.deterministic_tf2onnx import OrderedSet, reproducible

CONVERT = """
import sys
from pathlib import Path
from corpus import corpus
from tfmp.converters import convert

filler = [object() for _ in range(int(sys.argv[2]))]  # moves what is made later in memory
for name in sys.argv[3:]:
    convert(corpus()[name].open(), output=Path(sys.argv[1]) / f"{name}.onnx")
"""

# Loops, duplicates that are merged, einsums taken apart, a body's constants, two inputs.
MODELS = ("lstm", "transformer", "two_towers", "any_length")


@pytest.mark.slow
def test_two_processes_write_the_same_bytes(tmp_path: Path):
    processes = []
    for seed, filler in ((1, 10), (2, 98765)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        path = os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-c", CONVERT, str(folder), str(filler), *MODELS]
        environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": path}
        processes.append(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))
    assert [process.wait() for process in processes] == [0, 0]
    one, other = (sorted((tmp_path / seed).iterdir()) for seed in "12")
    assert [path.name for path in one] == [path.name for path in other]
    assert len(one) == len(MODELS)
    differ = [a.name for a, b in zip(one, other, strict=True) if a.read_bytes() != b.read_bytes()]
    assert differ == []


def test_modules_get_their_built_ins_back(monkeypatch: pytest.MonkeyPatch):
    module = types.ModuleType("some_package.part")
    exec("def kind():\n    return set, id", vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with reproducible("some_package"):
        assert module.kind()[0] is OrderedSet
    assert module.kind() == (set, id)


@pytest.mark.parametrize("equation", ["abc,cde->abde", "aecd,abcd->acbe"])
def test_products_of_many_axes_are_decomposed_with_numbers_for_ids(
    equation: str, monkeypatch: pytest.MonkeyPatch
):
    """With 1, 2, 3 they were not: tf2onnx took a step for an input, and ran its slow passes."""
    monkeypatch.setattr(einsum_optimizer.CachedEinsum, "einsum_cache", {})
    with reproducible("tf2onnx"):
        found = einsum_optimizer.optimize_einsum(equation, dtype=np.float32, opset=18)
    assert found.equation_

"""The whole chain of benchmarks/gpu/ on a CPU: packed here, measured in an environment like the
card's machine (its Python and packages, without TensorFlow), and reported here.

The wheel that travels is the one for the card, in pieces of the same size: its CPU provider runs
here. Takes ten minutes on two cores, four of them the processor's, and 6 GB of packages: it runs
where TFMP_PYTHON312 names an interpreter of the version that the card's machine has.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from repository import BENCHMARKS, ROOT

GPU = BENCHMARKS / "gpu"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "TFMP_PYTHON312" not in os.environ,
        reason="ten minutes and 6 GB: name a Python 3.12 in TFMP_PYTHON312",
    ),
]

MODELS = "cumsum skip_norm_large matmul regression large_lstm".split()
# A case for each mechanism of a stage; all cases take an hour on two cores.
SOME = {
    "training": "jax/lstm/float16-tfmp,torch/transformer/float16-tfmp",
    "sharing": "colocate",
}
SMALL = {"TFMP_GPU_SMALL": "1"}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean checkout of the files here, with everything packed in its build/gpu."""
    tree = tmp_path_factory.mktemp("here") / "tree"
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout
    for name in map(os.fsdecode, filter(None, found.split(b"\0"))):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    command = [sys.executable, "benchmarks/gpu/prepare.py", "--groups", "probes", "trained"]
    command += ["seeded", "--models", *MODELS]
    done = subprocess.run(
        command,
        cwd=tree,
        env={**os.environ, **SMALL},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return tree


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment with the packages of the card's machine."""
    base = os.environ["TFMP_PYTHON312"]
    folder = tmp_path_factory.mktemp("there") / "venv"
    subprocess.run([base, "-m", "venv", folder], check=True)
    found = folder / "bin" / "python"
    subprocess.run(
        [found, "-m", "pip", "install", "--quiet", "--no-compile", "-r", GPU / "machine.txt"],
        check=True,
    )
    return found


def test_everything_that_the_card_will_do_works_on_a_cpu(
    packed: Path, python: Path, tmp_path: Path, record_property
):
    there = tmp_path / "there"
    shutil.copytree(packed, there, ignore=shutil.ignore_patterns("build", ".git"))
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "KERAS", "TFMP", "VIRTUAL_ENV"))
    } | {
        **SMALL,
        "TFMP_GPU_STORE": str(tmp_path / "store"),
        "OUT": str(tmp_path / "given"),
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        # Compiling for speed takes most of the time, and nobody reads these times.
        "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
    }
    times = {}
    for call in json.loads((packed / "build/gpu/calls.json").read_text()):
        shutil.rmtree(there / "build", ignore_errors=True)  # a call brings what it carries alone
        for name in call["carry"]:
            if (packed / name).is_dir():
                shutil.copytree(packed / name, there / name)
        stage = call["command"].split()[2]
        command = call["command"] + (f" --only {SOME[stage]}" if stage in SOME else "")
        begin = time.monotonic()
        done = subprocess.run(
            ["bash", "-c", f"{command} --seconds 1500" if stage != "keep" else command],
            cwd=there,
            env=environment,
            capture_output=True,
            text=True,
        )
        times[stage] = times.get(stage, 0) + time.monotonic() - begin
        assert done.returncode == 0, done.stdout + done.stderr
    for stage, seconds in times.items():
        record_property(f"seconds of {stage}", round(seconds))

    given = tmp_path / "given"
    documents = {path.stem: json.loads(path.read_text()) for path in given.glob("*.json")}
    assert sorted(documents) == ["onnx", "sharing", "training"]
    for stage, document in documents.items():
        errors = {name: case for name, case in document["cases"].items() if "error" in case}
        assert document["cases"], stage
        assert errors == {}, stage
        assert document["machine"]["python"].startswith("3.12.")
        assert "tensorflow" not in document["machine"]["versions"]
        assert "onnxruntime-gpu" in document["machine"]["versions"]  # out of its pieces
    onnx = documents["onnx"]["cases"]
    # The wheel for the card finds all of its libraries, but for the driver's own.
    runtime = onnx.pop("onnxruntime")
    assert runtime["cuda_library"].startswith("libcuda.so.1: cannot open shared object file")
    assert sorted(onnx) == sorted(MODELS)
    # The CPU provider computes in FP32 between rounded values: what the profile "gpu" foretells.
    assert onnx["matmul"]["ways"]["fp16"]["from"]["gpu"] < 1e-3
    trained = documents["training"]["cases"]["jax/lstm/float16-tfmp"]
    assert trained["skipped_steps"] == 0
    assert trained["loss"][-1] < trained["loss"][0]

    report = [sys.executable, GPU / "report.py", "--take", given, "--results", tmp_path / "kept"]
    done = subprocess.run(report, capture_output=True, text=True)
    assert done.returncode == 2, done.stdout + done.stderr  # no card: no page
    page = tmp_path / "rehearsal.md"
    done = subprocess.run([*report, "--output", page], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "A REHEARSAL ON A CPU" in page.read_text()

"""Compiles a folder's model.onnx with IREE for this CPU and runs it; `fp16_oracles` starts it.

Run: python iree_run.py FOLDER     (reads inputs.npz, writes outputs.npz)
"""

import subprocess
import sys
from pathlib import Path

import iree.compiler
import iree.runtime
import numpy as np


def main() -> None:
    """Compiles and runs."""
    folder = Path(sys.argv[1])
    importer = Path(sys.executable).with_name("iree-import-onnx")
    subprocess.run([importer, folder / "model.onnx", "-o", folder / "model.mlir"], check=True)
    binary = iree.compiler.compile_file(
        str(folder / "model.mlir"),
        input_type="onnx",
        target_backends=["llvm-cpu"],
        extra_args=["--iree-llvmcpu-target-cpu=host"],
    )
    config = iree.runtime.Config("local-sync")
    module = iree.runtime.load_vm_module(
        iree.runtime.VmModule.copy_buffer(config.vm_instance, binary), config
    )
    (name,) = (
        name for name in module.vm_module.function_names if "$" not in name and "__" not in name
    )
    with np.load(folder / "inputs.npz") as given:
        inputs = [given[f"i{index}"] for index in range(len(given.files))]
    results = module[name](*inputs)
    results = results if isinstance(results, (list, tuple)) else [results]
    np.savez(
        folder / "outputs.npz",
        **{f"o{index}": np.asarray(result) for index, result in enumerate(results)},
    )


if __name__ == "__main__":
    main()

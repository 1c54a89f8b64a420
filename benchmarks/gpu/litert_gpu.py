"""Stage "litert": a TFLite file on LiteRT's GPU accelerator, where a Vulkan driver is."""

from pathlib import Path
from typing import Any

import numpy as np
from stage import Case

# Where `prepare.py` puts TFLite files, beside the models of the corpus.
FOLDER = "tflite"


def cases(corpus: Path) -> dict[str, Case]:
    """The driver, then every file."""
    files = sorted((corpus / FOLDER).glob("*.tflite"))
    return {"vulkan": Case(), **{file.stem: Case(limit_s=60.0) for file in files}}


def measure(name: str, corpus: Path) -> dict[str, Any]:
    """Adapters of Vulkan, or a file on the GPU and on the CPU."""
    from tfmp.converters.runners import litert_runner, litert_vulkan
    from tfmp.converters.shared.errors import MachineError

    try:
        if name == "vulkan":
            with litert_vulkan() as vulkan:
                return {"adapter": str(vulkan.adapter)}
        from comparing import compared

        with np.load(corpus / FOLDER / f"{name}.npz") as arrays:
            batch = {key[6:]: arrays[key] for key in arrays.files if key.startswith("input/")}
            reference = {key[10:]: arrays[key] for key in arrays.files if key[:10] == "reference/"}
        found: dict[str, Any] = {}
        for device in ("cpu", "gpu"):
            with litert_runner(corpus / FOLDER / f"{name}.tflite", gpu=device == "gpu") as runner:
                outputs = dict(zip(reference, runner.run(batch).values(), strict=True))
                found[device] = {
                    "drift": compared(reference, outputs).to_dict(),
                    "runner": str(runner.info),
                }
        return found
    except (MachineError, ModuleNotFoundError) as error:
        return {"absent": str(error)}

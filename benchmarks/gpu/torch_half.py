"""Stage "half": the FP16 files on PyTorch, and sums that are held in FP16.

PyTorch is a second executor of the same graphs: where it and ONNX Runtime agree and the emulator
does not, the emulator is wrong. Sums in FP16, which the profile "pessimistic" foretells, are asked
for in both: `allow_fp16_accumulation` in PyTorch, ORT_CUDA_GEMM_OPTIONS=1 in ONNX Runtime.
"""

from pathlib import Path
from typing import Any

import numpy as np
from stage import Case

_TORCH, _SUMS, _ORT_SUMS = "torch", "torch-fp16-sums", "ort-fp16-sums"


def cases(corpus: Path) -> dict[str, Case]:
    """Every model that is not large: PyTorch first, then sums in FP16."""
    from corpus_files import entries

    names = [name for name, entry in entries(corpus).items() if entry["group"] != "seeded"]
    environments = {_TORCH: {}, _SUMS: {}, _ORT_SUMS: {"ORT_CUDA_GEMM_OPTIONS": "1"}}
    return {
        f"{way}/{name}": Case(environment, limit_s=60.0)
        for way, environment in environments.items()
        for name in names
    }


def measure(name: str, corpus: Path) -> dict[str, Any]:
    """Runs one file in one way."""
    from comparing import compared
    from corpus_files import entries, read, read_predicted
    from onnx_cuda import WAYS, Opened, keep_outputs

    way, _, model = name.partition("/")
    entry = entries(corpus)[model]
    batch, meaning = read(corpus, entry)
    path = corpus / model / "half.onnx"
    if way == _ORT_SUMS:
        outputs = Opened(path, WAYS["fp16-strict"]).run(batch)
    else:
        outputs = _run_torch(path, batch, sums_in_fp16=way == _SUMS)
    predicted = read_predicted(corpus, entry)
    keep_outputs("half", f"{way}-{model}", {way: outputs})
    return {
        "group": entry["group"],
        "drift": compared(predicted["reference"], outputs, meaning).to_dict(),
        "predicted": entry["predicted"],
        "from": {
            profile: compared(predicted[profile], outputs).to_dict()["drift"]
            for profile in entry["predicted"]
        },
    }


def _run_torch(path: Path, batch: dict[str, np.ndarray], sums_in_fp16: bool) -> dict:
    """Outputs of an ONNX file as a module of PyTorch."""
    import onnx
    import onnx2torch
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_fp16_accumulation = sums_in_fp16
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = sums_in_fp16
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    model = onnx.load(path)
    module = onnx2torch.convert(model).eval().to(device)
    given = {initializer.name for initializer in model.graph.initializer}
    tensors = [
        torch.as_tensor(
            batch[value.name].astype(
                onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            ),
            device=device,
        )
        for value in model.graph.input
        if value.name not in given
    ]
    with torch.inference_mode():
        outputs = module(*tensors)
    several = outputs if isinstance(outputs, list | tuple) else [outputs]
    names = [value.name for value in model.graph.output]
    return {name: value.detach().cpu().numpy() for name, value in zip(names, several, strict=True)}

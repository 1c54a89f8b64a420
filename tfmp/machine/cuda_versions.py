"""The CUDA and cuDNN that TensorFlow or PyTorch was built for, and the installed ones."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tfmp.shared.backend import current_backend

# Where NVIDIA's installers leave a system-wide CUDA.
_SYSTEM_CUDA = Path("/usr/local/cuda/version.json")
_SYSTEM_CUDNN = (
    Path("/usr/include/cudnn_version.h"),
    Path("/usr/local/cuda/include/cudnn_version.h"),
)


@dataclass(frozen=True)
class CudaVersions:
    """Versions as text, such as "12.5.1"; an empty text means that there is no such version.

    Attributes:
        built, built_cudnn: the versions that the framework was built for; cuDNN's is often only
            its first number.
        found, found_cudnn: the versions that are installed.
        where: the place where they were found: "pip" or a folder.
        code_for: the cards that it has machine code for ("sm_80"), or code that the driver
            compiles at the first start ("compute_90"); empty where it does not say.
    """

    built: str = ""
    built_cudnn: str = ""
    found: str = ""
    found_cudnn: str = ""
    where: str = ""
    code_for: tuple[str, ...] = ()


def installed_cuda(packages: Mapping[str, str]) -> CudaVersions:
    """Asks the framework's build record, then Python's packages, then the system's folders.

    Args:
        packages: by name, the version of every installed package.
    """
    told, system = current_backend().built_for(), _system_version()
    known = CudaVersions(
        built=str(told.get("cuda_version", "")),
        built_cudnn=str(told.get("cudnn_version", "")),
        found=system,
        found_cudnn=_system_cudnn(),
        where=str(_SYSTEM_CUDA.parent) if system else "",
        code_for=tuple(map(str, told.get("cuda_compute_capabilities") or ())),
    )
    return from_packages(packages, known)


def from_packages(packages: Mapping[str, str], known: CudaVersions) -> CudaVersions:
    """Puts packages before the system's; those of the framework's generation come first."""
    runtimes, libraries = (
        {_generation(name, text): text for name, text in packages.items() if name.startswith(start)}
        for start in ("nvidia-cuda-runtime", "nvidia-cudnn-cu")
    )
    wanted = int(known.built.split(".")[0]) if known.built[:1].isdigit() else None
    found, cudnn = _preferred(runtimes, wanted), _preferred(libraries, wanted)
    return replace(
        known,
        found=found or known.found,
        found_cudnn=cudnn or known.found_cudnn,
        where="pip" if found else known.where,
    )


def _generation(name: str, version: str) -> int:
    """12 for nvidia-cuda-runtime-cu12; from CUDA 13 on, CUDA's own packages carry no suffix."""
    suffix = name.rpartition("-cu")[2]
    return int(suffix if suffix.isdigit() else version.split(".")[0])


def _preferred(versions: Mapping[int, str], wanted: int | None) -> str:
    if wanted is not None and wanted in versions:
        return versions[wanted]
    return versions[max(versions)] if versions else ""


def _system_version() -> str:
    try:
        return str(json.loads(_SYSTEM_CUDA.read_text(encoding="utf-8"))["cuda"]["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _system_cudnn() -> str:
    for path in _SYSTEM_CUDNN:
        try:
            words = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
        except OSError:
            continue
        defined = {word[1]: word[2] for word in words if len(word) >= 3 and word[0] == "#define"}
        numbers = [defined.get(f"CUDNN_{part}") for part in ("MAJOR", "MINOR", "PATCHLEVEL")]
        if all(numbers):
            return ".".join(str(number) for number in numbers)
    return ""

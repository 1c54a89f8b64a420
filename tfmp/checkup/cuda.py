"""doctor's checks of NVIDIA's cards, and of the software between cards and frameworks."""

import re
from collections.abc import Callable, Iterable

from tfmp.checkup.frameworks import built_framework, framework_of, install_with_cuda
from tfmp.machine import Device, Machine
from tfmp.shared.findings import Finding
from tfmp.shared.wording import listed

# NVIDIA, "CUDA Compatibility", table of minor version compatibility: the oldest Linux driver that
# runs programs built for any minor version of the major one.
OLDEST_DRIVER = {11: (450, 80), 12: (525, 60), 13: (580, 0)}

# A card that is this full has little room for training beside its other users.
_NEARLY_FULL = 0.5

# Providers that only this kind of machine needs; the CPU's always loads.
_CUDA_PROVIDER = "CUDAExecutionProvider"


def check_cuda_generations(machine: Machine) -> Iterable[Finding]:
    """TensorFlow or PyTorch, and ONNX Runtime, need CUDA libraries of the same generation."""
    runtime = machine.packages.get("onnxruntime-gpu")
    there = framework_of(machine).built in machine.packages
    older = _numbers(machine.cuda.built or "12")[0] < 13
    if runtime and there and older and _numbers(runtime) >= (1, 27):
        yield Finding(
            "CUDA",
            "problem" if machine.gpu else "note",
            f"onnxruntime-gpu {runtime} is built for CUDA 13, {built_framework(machine).title} "
            "for CUDA 12",
            'Run: pip install "onnxruntime-gpu<1.27"',
        )
    libraries = sorted(name for name in machine.packages if name.startswith("nvidia-cudnn-"))
    if len(libraries) > 1:
        keep = f"nvidia-cudnn-cu{_numbers(machine.cuda.built or '12')[0]}"
        keep = keep if keep in libraries else libraries[0]
        others = " ".join(name for name in libraries if name != keep)
        yield Finding(
            "CUDA",
            "problem",
            f"{' and '.join(libraries)} overwrite each other's files",
            # Removing one package removes files of the other too.
            f"Run: pip uninstall -y {others}; "
            f"pip install --force-reinstall --no-deps {keep}=={machine.packages[keep]}",
        )


def check_driver(machine: Machine) -> Iterable[Finding]:
    """Whether the driver answers, and runs the CUDA that the framework was built for."""
    nvidia = machine.nvidia
    if nvidia.built_in and not (nvidia.error or nvidia.driver or machine.nvidia_driver):
        yield Finding(
            "driver",
            "warning",
            f"NVIDIA cards in this computer: {nvidia.built_in}; there is no driver for them, so "
            "training is on the CPU",
            "Install NVIDIA's driver; a container also needs NVIDIA's toolkit and docker run "
            "--gpus all",
        )
    if nvidia.error:
        yield Finding(
            "driver",
            "problem",
            nvidia.error,
            "Restart the machine after a driver update, or install the driver again",
        )
    if nvidia.driver is None:
        return
    runs = f", runs CUDA up to {nvidia.cuda[0]}.{nvidia.cuda[1]}" if nvidia.cuda else ""
    built = _numbers(machine.cuda.built) if machine.cuda.built else ()
    oldest = OLDEST_DRIVER.get(built[0]) if built else None
    if oldest and _numbers(nvidia.driver) < oldest:
        yield Finding(
            "driver",
            _severity(machine),
            f"NVIDIA's driver {nvidia.driver}{runs}; {built_framework(machine).title} is built for "
            f"CUDA {machine.cuda.built}, which needs {oldest[0]}.{oldest[1]} or newer",
            f"Install driver {oldest[0]}.{oldest[1]} or newer",
        )
    else:
        yield Finding("driver", "ok", f"NVIDIA's driver {nvidia.driver}{runs}")


def check_cuda_libraries(machine: Machine) -> Iterable[Finding]:
    """Compares the CUDA and cuDNN that the framework was built for with the installed ones."""
    cuda, framework = machine.cuda, built_framework(machine)
    install = install_with_cuda(framework, machine)
    if not cuda.built or not machine.nvidia.driver:
        return
    for name, built, found in (
        ("CUDA", cuda.built, cuda.found),
        ("cuDNN", cuda.built_cudnn, cuda.found_cudnn),
    ):
        if not built or (machine.gpu and not found and framework.brings_cuda):
            continue
        if not found:
            yield Finding(
                name,
                _severity(machine),
                f"{framework.title} is built for {name} {built}, but no {name} is installed",
                install,
            )
        elif _numbers(found)[0] != _numbers(built)[0]:
            yield Finding(
                name,
                _severity(machine),
                f"{framework.title} is built for {name} {built}, but {found} is installed "
                f"({cuda.where})",
                install.replace("pip install", "pip install --force-reinstall"),
            )
        else:
            yield Finding(name, "ok", f"built for {built}, installed is {found} ({cuda.where})")


def check_library_path(machine: Machine) -> Iterable[Finding]:
    """Folders in LD_LIBRARY_PATH are searched before the libraries that pip installed."""
    built = _numbers(machine.cuda.built or "0")[0]
    for folder in machine.environment.get("LD_LIBRARY_PATH", "").split(":"):
        match = re.search(r"cuda-(\d+)(?:\.\d+)?(?:/|$)", folder)
        if match and built and int(match[1]) != built:
            yield Finding(
                "environment",
                "warning",
                f"LD_LIBRARY_PATH has {folder}: libraries of CUDA {match[1]} are loaded before the "
                f"libraries of CUDA {built}, which {built_framework(machine).title} is built for",
                f"Take {folder} out of LD_LIBRARY_PATH",
            )


def check_machine_code(machine: Machine) -> Iterable[Finding]:
    """Whether the framework has code for the card: machine code, code to compile first, or none.

    CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility": machine code runs
    on later minor versions of its major one; PTX is compiled for every later one.
    """
    code = [re.fullmatch(r"(sm|compute)_(\d+)(\d)[a-z]?", name) for name in machine.cuda.code_for]
    have = [(match[1], (int(match[2]), int(match[3]))) for match in code if match]
    framework = built_framework(machine)
    if not have or framework != framework_of(machine):
        return
    for device in machine.devices:
        card = device.compute_capability
        if card is None or any(c[0] == card[0] and c <= card for kind, c in have if kind == "sm"):
            continue
        generic = [c for kind, c in have if kind == "compute" and c <= card]
        if not generic:
            yield Finding(
                "CUDA",
                "problem",
                f"this {framework.title} has no code for {device}; it has code for "
                + ", ".join(machine.cuda.code_for),
                f"Train on the CPU, on another card, or with another version of {framework.title}",
            )
            continue
        known = max(generic) == card
        yield Finding(
            "CUDA",
            "note" if known else "warning",
            f"this {framework.title} has no machine code for {device}: the driver compiles it at "
            + ("the first start, " + ("for minutes" if known else "and some may not work")),
            # github.com/tensorflow/tensorflow/issues/89272
            "Set CUDA_CACHE_MAXSIZE=4294967296, so that the driver can keep all of that code"
            if known
            else f"Use NVIDIA's container (nvcr.io/nvidia/{framework.title.lower()}), or the JAX "
            "backend",
        )


def check_providers(machine: Machine) -> Iterable[Finding]:
    """Which of ONNX Runtime's execution providers load."""
    if not machine.providers:
        return
    short = {name.removesuffix("ExecutionProvider"): why for name, why in machine.providers.items()}
    loaded = [name for name, why in short.items() if not why]
    others = [name for name, why in short.items() if why]
    text = f"providers that load: {', '.join(loaded) or 'not one'}"
    text += f"; built in, but do not load: {', '.join(others)}" if others else ""
    yield Finding("ONNX Runtime", "ok" if loaded else "problem", text)
    reason = machine.providers.get(_CUDA_PROVIDER)
    if reason and machine.nvidia.driver:
        yield Finding(
            "ONNX Runtime",
            "problem",
            f"its CUDA provider does not load: {reason}",
            'Run: pip install "tfmp[cuda]"',
        )
    if reason is None and machine.gpu and "onnxruntime" in machine.packages:
        yield Finding(
            "ONNX Runtime",
            "warning",
            "onnxruntime is the build without CUDA, so validation runs on the CPU",
            "Run: pip uninstall -y onnxruntime; pip install onnxruntime-gpu",
        )


def check_cards(machine: Machine) -> Iterable[Finding]:
    """Memory, MIG and other users of each card."""
    for card in machine.nvidia.cards:
        device = Device("gpu", card.name, card.compute_capability)
        parts = [str(device), "Tensor Cores" if device.tensor_cores else "no Tensor Cores"]
        if card.memory_mib is not None:
            free = (
                "" if card.used_mib is None else f", {_gib(card.memory_mib - card.used_mib)} free"
            )
            parts.append(f"{_gib(card.memory_mib)}{free}")
        yield Finding(f"card {card.index}", "ok", "; ".join(parts))
        if card.mig:
            instances = ", ".join(card.mig_profiles)
            yield Finding(
                f"card {card.index}",
                "note" if instances else "problem",
                f"MIG is on: {instances or 'there is no instance, so nothing can compute on it'}",
                "Choose the instance that a process sees with CUDA_VISIBLE_DEVICES=MIG-..."
                if instances
                else "Make an instance (nvidia-smi mig -cgi 0 -C), or have MIG switched off",
            )
        elif card.memory_mib and card.used_mib and card.used_mib > _NEARLY_FULL * card.memory_mib:
            yield Finding(
                f"card {card.index}",
                "warning",
                f"{card.used_mib / card.memory_mib:.0%} of its memory is taken{_users(machine)}",
                "Wait for these processes, or choose another card with CUDA_VISIBLE_DEVICES",
            )
    if machine.nvidia.users and all(card.mig is not True for card in machine.nvidia.cards):
        yield Finding(
            "other users",
            "note",
            f"{len(machine.nvidia.users)} processes compute on the cards{_users(machine)}",
            "Measure times when these processes have ended",
        )


def check_memory_growth(machine: Machine) -> Iterable[Finding]:
    """Whether the backend leaves memory of the card for other processes."""
    if not machine.gpu:
        return
    framework, environment = framework_of(machine), machine.environment
    settings = {f"{name}={value.lower()}" for name, value in environment.items()}
    grows = machine.memory_growth or not framework.sharing
    if not grows and settings.isdisjoint(framework.sharing):
        share = environment.get(framework.share, framework.takes)
        text = f"{framework.title} takes {share} of the card's memory at once"
        fix = f"Set {framework.sharing[0]} to share the card"
        shared = bool(machine.nvidia.users)
        yield Finding("memory growth", "warning" if shared else "note", text, fix)
    else:
        yield Finding("memory growth", "ok", "memory of the card is taken as it is needed")


CHECKS: tuple[Callable[[Machine], Iterable[Finding]], ...] = (
    check_cuda_generations,
    check_driver,
    check_cuda_libraries,
    check_library_path,
    check_machine_code,
    check_cards,
    check_memory_growth,
    check_providers,
)


def _severity(machine: Machine) -> str:
    """Severity of a fault that keeps a framework off a card: it matters if Keras runs on it."""
    return "problem" if built_framework(machine) == framework_of(machine) else "note"


def _users(machine: Machine) -> str:
    names = [f"{user.name} ({user.pid})" for user in machine.nvidia.users]
    return f": {listed(names, 3)}" if names else ""


def _gib(mib: int) -> str:
    return f"{mib / 1024:.1f} GiB"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())

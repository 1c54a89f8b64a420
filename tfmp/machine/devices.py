"""The devices of this machine and their abilities: Tensor Cores, TF32, bfloat16.

The facts come from NVIDIA's tables, not from a run: asking for them costs no memory on the device
and works on a machine that has none.
"""

import re
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import ClassVar

from tfmp.shared.backend import current_backend

# CUDA C++ Programming Guide, "Compute Capabilities": Tensor Cores came with 7.0 (Volta); TF32 and
# bfloat16 on them with 8.0 (Ampere).
FIRST_TENSOR_CORES = (7, 0)
FIRST_TF32 = (8, 0)

# The TU116 and TU117 chips report compute capability 7.5 but have no Tensor Cores: GeForce GTX
# 16xx, their MX and mobile forms, and the Quadro and T-series boards built on TU117.
_TURING_WITHOUT_TENSOR_CORES = re.compile(
    r"GTX\s*16\d\d|\bMX4[05]\d\b|\bMX5[57]0\b|\bT(?:400|500|550|600|1000|1200)\b|Quadro\s+T(?:1000|2000)\b",
    re.IGNORECASE,
)

_ARCHITECTURES = (
    ((12, 0), "Blackwell"),
    ((10, 0), "Blackwell"),
    ((9, 0), "Hopper"),
    ((8, 9), "Ada Lovelace"),
    ((8, 0), "Ampere"),
    ((7, 5), "Turing"),
    ((7, 0), "Volta"),
    ((6, 0), "Pascal"),
    ((5, 0), "Maxwell"),
)


@dataclass(frozen=True)
class Device:
    """A device that a model can train on.

    Attributes:
        kind: "cpu", "gpu", "tpu" or "other".
        name: as the driver gives it, such as "NVIDIA A100-SXM4-40GB"; "CPU" for the processor.
        compute_capability: CUDA's (major, minor); None on devices that are not NVIDIA's.
    """

    DERIVED: ClassVar[tuple[str, ...]] = ("architecture", "tensor_cores", "tf32", "bfloat16")

    kind: str
    name: str
    compute_capability: tuple[int, int] | None = None

    @property
    def architecture(self) -> str | None:
        """NVIDIA's name for the generation; None if the compute capability is unknown."""
        if self.compute_capability is None:
            return None
        for first, name in _ARCHITECTURES:
            if self.compute_capability >= first:
                return name
        return None

    @property
    def tensor_cores(self) -> bool:
        """Whether FP16 matrix products run on special units, several times faster."""
        if self.compute_capability is None or self.compute_capability < FIRST_TENSOR_CORES:
            return False
        turing = self.compute_capability == (7, 5)
        return not (turing and _TURING_WITHOUT_TENSOR_CORES.search(self.name))

    @property
    def tf32(self) -> bool:
        """Whether float32 matrix products can run on Tensor Cores with 10 fraction bits."""
        return self.compute_capability is not None and self.compute_capability >= FIRST_TF32

    @property
    def bfloat16(self) -> bool:
        """Whether bfloat16 matrix products run at the speed of FP16 ones."""
        return self.kind == "tpu" or self.tf32

    def __str__(self) -> str:
        if self.compute_capability is None:
            return self.name
        major, minor = self.compute_capability
        return f"{self.name} ({self.architecture}, compute capability {major}.{minor})"


CPU = Device("cpu", "CPU")


def visible_devices() -> tuple[Device, ...]:
    """The devices that the current Keras backend would train on, accelerators before the CPU."""
    found = (Device(*facts) for facts in current_backend().devices())
    return (*(device for device in found if device.kind != "cpu"), CPU)


def accelerators() -> tuple[Device, ...]:
    """The devices among `visible_devices()` that are not the CPU."""
    return tuple(device for device in visible_devices() if device.kind != "cpu")


def tf32_in_use(device: Device) -> bool | None:
    """Whether float32 products on this device run as TF32 now; None if the backend cannot say."""
    return current_backend().tf32() if device.tf32 else False


def tf32_switched(on: bool | None) -> AbstractContextManager[object]:
    """Switches TF32 for float32 products on or off in this block; None leaves it as it is.

    On JAX the switch holds for functions that are traced in the block, and for functions that were
    traced in an equal block before.
    """
    return nullcontext() if on is None else current_backend().tf32_switched(on)

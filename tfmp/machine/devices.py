"""The devices of this machine and their abilities: Tensor Cores, TF32, bfloat16.

The facts come from NVIDIA's tables, not from a run: asking for them costs no memory on the device
and works on a machine that has none.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from tfmp.shared.report_files import JsonObject

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

    def to_dict(self) -> JsonObject:
        """All facts about the device, as plain JSON types."""
        return {
            **asdict(self),
            "architecture": self.architecture,
            "tensor_cores": self.tensor_cores,
            "tf32": self.tf32,
            "bfloat16": self.bfloat16,
        }


CPU = Device("cpu", "CPU")


def parse_tensorflow(device_type: str, details: Mapping[str, Any]) -> Device:
    """Reads the result of `tf.config.experimental.get_device_details` for one physical device."""
    capability = details.get("compute_capability")
    name = str(details.get("device_name", device_type))
    kind = {"CPU": "cpu", "GPU": "gpu", "TPU": "tpu"}.get(device_type, "other")
    return CPU if kind == "cpu" else Device(kind, name, tuple(capability) if capability else None)


def parse_jax(platform: str, device_kind: str, compute_capability: str | None) -> Device:
    """Reads the attributes of one `jax.Device`: platform "cpu", "gpu" or "tpu", and the rest."""
    if platform == "cpu":
        return CPU
    capability = None
    if compute_capability and re.fullmatch(r"\d+\.\d+", compute_capability):
        major, minor = compute_capability.split(".")
        capability = (int(major), int(minor))
    kind = {"gpu": "gpu", "cuda": "gpu", "rocm": "gpu", "tpu": "tpu"}.get(platform, "other")
    return Device(kind, device_kind, capability)


def visible_devices() -> tuple[Device, ...]:
    """The devices that the current Keras backend would train on, accelerators before the CPU."""
    from keras import backend

    found = {"tensorflow": tensorflow_devices, "jax": jax_devices}.get(backend.backend())
    return (*(d for d in (found() if found else ()) if d.kind != "cpu"), CPU)


def accelerators() -> tuple[Device, ...]:
    """The devices among `visible_devices()` that are not the CPU."""
    return tuple(device for device in visible_devices() if device.kind != "cpu")


def tf32_in_use(device: Device) -> bool | None:
    """Whether float32 products on this device run as TF32 now; None if the backend cannot say."""
    from keras import backend

    if not device.tf32:
        return False
    if backend.backend() == "tensorflow":
        import tensorflow as tf

        return bool(tf.config.experimental.tensor_float_32_execution_enabled())
    if backend.backend() == "jax":
        import jax

        precision = jax.config.jax_default_matmul_precision
        return precision not in ("float32", "highest", "F32_F32_F32")
    return None


@contextmanager
def tf32_switched(on: bool | None) -> Iterator[None]:
    """Switches TF32 for float32 products on or off in this block; None leaves it as it is.

    On JAX the switch holds for functions that are traced in the block, and for functions that were
    traced in an equal block before.
    """
    from keras import backend

    if on is None or backend.backend() not in ("tensorflow", "jax"):
        yield
    elif backend.backend() == "jax":
        import jax

        with jax.default_matmul_precision("tensorfloat32" if on else "float32"):
            yield
    else:
        import tensorflow as tf

        before = tf.config.experimental.tensor_float_32_execution_enabled()
        tf.config.experimental.enable_tensor_float_32_execution(on)
        try:
            yield
        finally:
            tf.config.experimental.enable_tensor_float_32_execution(before)


def tensorflow_devices() -> tuple[Device, ...]:
    """The devices that TensorFlow may use: a user can hide a card with set_visible_devices."""
    import tensorflow as tf

    asked = tf.config.experimental.get_device_details
    return tuple(
        parse_tensorflow(d.device_type, asked(d) if d.device_type == "GPU" else {})
        for d in tf.config.get_visible_devices()
    )


def jax_devices() -> tuple[Device, ...]:
    """The devices of this process on JAX."""
    import jax

    return tuple(
        parse_jax(d.platform, d.device_kind, getattr(d, "compute_capability", None))
        for d in jax.local_devices()
    )

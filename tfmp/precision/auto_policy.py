"""The policy that `policy="auto"` chooses on the devices of this machine, and why."""

from collections.abc import Sequence
from typing import NamedTuple

from tfmp.machine import CPU, Device


class Choice(NamedTuple):
    """The name of a Keras dtype policy, and one sentence that names the device."""

    policy: str
    reason: str


def choose(devices: Sequence[Device], allow_bfloat16: bool = False) -> Choice:
    """The fastest policy that is safe for a model that trains on these devices.

    Args:
        devices: the devices that the backend would use; the CPU counts only if it is the only one.
        allow_bfloat16: whether 7 fraction bits are acceptable in exchange for needing no loss
            scale.

    Returns:
        The choice for the weakest device, because all replicas of a model compute alike.
    """
    choices = [_choose_for(device, allow_bfloat16) for device in devices if device.kind != "cpu"]
    if not choices:
        return _choose_for(CPU, allow_bfloat16)
    cautious = [choice for choice in choices if choice.policy == "float32"]
    return (cautious or choices)[0]


def _choose_for(device: Device, allow_bfloat16: bool) -> Choice:
    if device.kind == "cpu":
        return Choice("float32", "CPU only: no Tensor Cores, so 16 bits would be slower")
    if device.kind == "tpu":
        if allow_bfloat16:
            return Choice("mixed_bfloat16", f"{device}: computes in bfloat16, has no FP16")
        hint = "computes in bfloat16, which policy='auto+bfloat16' allows"
        return Choice("float32", f"{device}: has no FP16 ({hint})")
    if device.compute_capability is None:
        return Choice("float32", f"{device}: not known to have Tensor Cores")
    if not device.tensor_cores:
        return Choice("float32", f"{device}: no Tensor Cores, so 16 bits would gain no speed")
    if device.bfloat16 and allow_bfloat16:
        return Choice("mixed_bfloat16", f"{device}: Tensor Cores; bfloat16 needs no loss scale")
    tf32 = " (float32 matrix products there run as TF32 unless that is switched off)"
    return Choice("mixed_float16", f"{device}: FP16 on Tensor Cores{tf32 if device.tf32 else ''}")

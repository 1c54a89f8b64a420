"""Profiles of a training step that are made up."""

from collections.abc import Iterable, Mapping
from typing import Any

from tfmp.machine.devices import CPU, Device
from tfmp.machine.measuring import DEVICE_MEMORY, Memory, Timing
from tfmp.precision.tensor_cores import TensorCorePath
from tfmp.profiling.layers import LayerCost, LayerProfile
from tfmp.profiling.report import ProfileReport
from tfmp.profiling.steps import StepProfile

A100 = Device("gpu", "NVIDIA A100-SXM4-40GB", (8, 0))
CORES = TensorCorePath(True)
PADDED = TensorCorePath(True, "units 10 (padded: 16)")
NO_PRODUCT = TensorCorePath(False, "no matrix product")


def step(
    variant: str, seconds: Iterable[float], memory: int | None = None, **more: Any
) -> StepProfile:
    """A variant with these timings; without any, it did not run."""
    times = tuple(seconds)
    needed = None if memory is None else Memory(memory, more.pop("source", DEVICE_MEMORY))
    timing = Timing(times) if times else None
    values = {"batch_size": 32, "memory": needed, **more}
    return StepProfile(variant, variant.split()[0], timing, **values)


def layer(path: str, costs: Mapping[str, tuple[float, TensorCorePath]]) -> LayerProfile:
    """A layer with its share of the layers' time, which takes a second, by variant."""
    found = {name: LayerCost("float16", share, share, way) for name, (share, way) in costs.items()}
    return LayerProfile(path, "Dense", 1, found)


def profile(
    *variants: StepProfile, layers: Iterable[LayerProfile] = (), device: Device = CPU, **more: Any
) -> ProfileReport:
    """A report on those variants."""
    rounds = max(len(row.step.seconds) if row.step else 1 for row in variants or [step("x", ())])
    values = {"model": "m", "environment": {}, "rounds": rounds, "steps_per_round": 1, **more}
    return ProfileReport(
        device=device, backend="tensorflow", variants=variants, layers=tuple(layers), **values
    )

"""The roofline of a profile's runs, from what the bench measured."""

from collections.abc import Mapping

from tfmp.machine import Device
from tfmp.precision import has_tensor_cores
from tfmp.profiling.layers import LayerProfile
from tfmp.profiling.runs import TrainingRun
from tfmp.profiling.steps import StepProfile
from tfmp.roofline import Placement, Roofline, Setting, find_peaks
from tfmp.shared.backend import current_backend
from tfmp.shared.wording import first_line, listed


def find_limits(
    runs: Mapping[str, TrainingRun],
    rows: Mapping[str, StepProfile],
    layers: tuple[LayerProfile, ...],
    device: Device,
) -> tuple[Roofline, list[str]]:
    """Places each run's step, and each layer, under the roof of the device.

    Returns:
        The roofline, and notes about work that could not be counted.
    """
    notes: list[str] = []
    settings = {name: _setting(run) for name, run in runs.items()}
    layer_dtypes = {
        layer.compute_dtype for run in runs.values() for layer in run.model._flatten_layers()
    }
    if has_tensor_cores(device):
        layer_dtypes.add("float16")  # the rate that 16 bits would give
    dtypes = tuple(sorted(dtype for dtype in layer_dtypes if dtype and "float" in dtype))
    peaks = find_peaks(device, dtypes, any(setting.jit for setting in settings.values()))
    steps = {}
    for name, run in runs.items():
        step = rows[name].step
        try:
            work = run.work()
        except Exception as error:  # a program that XLA cannot take may raise any error
            notes.append(f"FLOPs of the step in {name} are unknown: {first_line(error)[:200]}")
            continue
        if step is not None:
            setting = settings[name]
            steps[name] = Placement(work, step.median, peaks, setting, calls=1)
            if work.uncounted:
                notes.append(f"the step in {name}, FLOPs without {listed(work.uncounted, most=3)}")
    cores = has_tensor_cores(device)
    placed = {
        layer.path: {
            name: Placement(
                cost.work, cost.seconds, peaks, settings[name], cost.tensor_cores if cores else None
            )
            for name, cost in layer.costs.items()
            if cost.work is not None and (cost.work.bytes or not cost.work.uncounted)
        }
        for layer in layers
    }
    return Roofline(peaks, steps, placed), notes


def _setting(run: TrainingRun) -> Setting:
    jit = current_backend().always_jits or bool(run.model.jit_compile)
    return Setting(run.variant.policy, run.variant.uses_tf32, jit)

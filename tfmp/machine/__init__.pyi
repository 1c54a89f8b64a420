from . import devices as devices, measuring as measuring
from .child_process import (
    ApartError as ApartError,
    call_apart as call_apart,
    deaf_to_ctrl_c as deaf_to_ctrl_c,
    end_with_parent as end_with_parent,
    ending_with_parent as ending_with_parent,
    variables_set as variables_set,
    why_it_ended as why_it_ended,
)
from .devices import CPU as CPU, Device as Device, accelerators as accelerators
from .facts import Machine as Machine, read_machine as read_machine
from .gpu_use import GpuUse as GpuUse, GpuWatch as GpuWatch
from .measuring import (
    DEVICE_MEMORY as DEVICE_MEMORY,
    FEWEST_FOR_INTERVAL as FEWEST_FOR_INTERVAL,
    PROCESS_NOISE_BYTES as PROCESS_NOISE_BYTES,
    Memory as Memory,
    PeakMemory as PeakMemory,
    Timing as Timing,
    bytes_text as bytes_text,
    interleaved as interleaved,
    is_out_of_memory as is_out_of_memory,
    median_interval as median_interval,
    paired_ratio as paired_ratio,
    ratios as ratios,
    seconds_text as seconds_text,
    timed as timed,
)
from .memory_left import (
    card_memory as card_memory,
    free_host_memory as free_host_memory,
    free_memory as free_memory,
)
from .mps import mps_memory_limit as mps_memory_limit, mps_runs as mps_runs
from .nvidia import read_nvidia as read_nvidia

"""The FP16 instructions of this machine's CPU."""

import platform
from pathlib import Path

# Flags of /proc/cpuinfo by what they are called: x86 with arithmetic in FP16 (Intel from Sapphire
# Rapids on), x86 with conversions alone, ARM with arithmetic (Linux, Documentation/arch).
_INSTRUCTIONS = {"avx512_fp16": "AVX512-FP16", "asimdhp": "ARM FP16", "f16c": "F16C"}


def fp16_instructions(cpu_info: Path = Path("/proc/cpuinfo")) -> str:
    """The best FP16 instructions that Linux tells of, or else the kind of CPU.

    Args:
        cpu_info: the file that tells.
    """
    try:
        lines = cpu_info.read_text().splitlines()
    except OSError:
        lines = []
    told = (
        line.partition(":")[2].split() for line in lines if line[:8] in ("flags\t\t:", "Features")
    )
    flags = set(next(told, ()))
    known = (name for flag, name in _INSTRUCTIONS.items() if flag in flags)
    return next(known, platform.machine() or "an unknown CPU")

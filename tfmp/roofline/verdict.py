"""Where a program stands under the roof of its device, and the change that would help most.

The roofline model (Williams, Waterman and Patterson, 2009) bounds a program's time by its FLOPs at
the device's peak and by its bytes at the memory's bandwidth. A third bound is added: the time that
starting its kernels takes.
"""

from dataclasses import dataclass

from tfmp.precision import TensorCorePath, is_narrow
from tfmp.roofline.peaks import Peaks
from tfmp.roofline.work import Work
from tfmp.shared.report_files import JsonObject

COMPUTE_BOUND, MEMORY_BOUND = "compute-bound", "memory-bound"
LAUNCH_BOUND = "launch-bound"

# The roof is the limit of a program if it explains at least this share of its time.
_LITTLE = 0.3

# If the bytes would take so many times as long as the whole program, they came from a cache.
_CACHED = 1.5

# A change that could buy less is not worth naming.
_WORTH_NAMING = 1.05


def share_text(share: float) -> str:
    """A share in whole percent; one that rounds to 0 is not nothing: 41%, under 1%."""
    return "under 1%" if 0 < share < 0.005 else f"{share:.0%}"


@dataclass(frozen=True)
class Setting:
    """The circumstances of a measurement.

    Attributes:
        policy: the precision policy.
        tf32: whether float32 products may run as TF32.
        jit: whether XLA compiles the model.
    """

    policy: str
    tf32: bool = False
    jit: bool = False


@dataclass(frozen=True)
class Advice:
    """A change and its largest possible gain.

    Attributes:
        text: the change, in words.
        at_most: how many times faster the part would be in the best case; None if unknown.
    """

    text: str
    at_most: float | None = None

    def __str__(self) -> str:
        if self.at_most is None:
            return self.text
        times = float(f"{self.at_most:.2g}")  # in two digits: 1.4x, 65x, 4,300x
        return f"{self.text} (at most {times:,g}x as fast)"


@dataclass(frozen=True)
class Placement:
    """A layer or a step under the roof: its measured time beside the limits of the device.

    Attributes:
        work: FLOPs and bytes of its forward and backward pass.
        seconds: measured time.
        peaks: the device's limits.
        setting: the circumstances.
        path: a layer's way to Tensor Cores; None for a step, or without Tensor Cores.
        calls: number of calls of compiled functions in the time.
    """

    work: Work
    seconds: float
    peaks: Peaks
    setting: Setting
    path: TensorCorePath | None = None
    calls: int = 0

    @property
    def compute_s(self) -> float:
        """The least time for its FLOPs."""
        return self.peaks.compute_seconds(self.work, self.setting.tf32)

    @property
    def memory_s(self) -> float:
        """The least time for its bytes; 0 if they came from a cache."""
        seconds = self.peaks.memory_seconds(self.work)
        return 0.0 if seconds > _CACHED * self.seconds > 0 else seconds

    @property
    def launch_s(self) -> float:
        """The time for starting its passes."""
        return self.calls * self.peaks.call_s + self.work.passes * self.peaks.pass_s

    @property
    def roof_s(self) -> float:
        """The least time on this device."""
        return max(self.compute_s, self.memory_s)

    @property
    def peak_share(self) -> float:
        """Achieved share of the device's FLOP/s in the dtypes that were used."""
        return self.compute_s / self.seconds if self.seconds else 0.0

    @property
    def bandwidth_share(self) -> float:
        """Achieved share of the memory's bandwidth; 0 if the data came from a cache."""
        return self.memory_s / self.seconds if self.seconds else 0.0

    @property
    def verdict(self) -> str:
        """Its limit: "compute-bound", "memory-bound" or "launch-bound"."""
        # What computes and moves nothing, as a reshape, takes the time of its call alone.
        if self.launch_s >= self.roof_s and self.roof_s < _LITTLE * self.seconds:
            return LAUNCH_BOUND
        return COMPUTE_BOUND if self.compute_s >= self.memory_s else MEMORY_BOUND

    @property
    def advice(self) -> Advice:
        """The change that would help most."""
        roof_s, jit, path = self.roof_s, self.setting.jit, self.path
        nearer = self.seconds / roof_s if roof_s and self.seconds > roof_s else None
        if self.verdict == LAUNCH_BOUND:
            return Advice("a larger batch" if jit else "a larger batch or jit_compile=True", nearer)
        narrow = is_narrow(self.setting.policy)
        if narrow and path is not None and path.eligible and path.reason:
            return Advice(f"Tensor Cores idle on odd sizes: pad {path.reason}", nearer)
        if roof_s < _LITTLE * self.seconds:
            change = "a larger batch" if jit else "jit_compile=True"
            reached = share_text(roof_s / self.seconds)
            return Advice(f"{change}, as kernels reach {reached} of the roof", nearer)
        memory_bound = self.verdict == MEMORY_BOUND
        gain = 1.0 if narrow else self._gain_of_16_bits()
        if gain >= _WORTH_NAMING:
            if memory_bound:
                return Advice("mixed precision halves the bytes", gain)
            return Advice("mixed precision, as 16 bits multiply faster", gain)
        if memory_bound and not jit:
            return Advice("jit_compile=True fuses passes over memory", nearer)
        if memory_bound:
            return Advice("fewer or smaller activations: the memory is the limit")
        if narrow and path is not None and not path.eligible:
            return Advice(f"no Tensor Core path: {path.reason}")
        return Advice("less arithmetic: the processor is the limit")

    def _gain_of_16_bits(self) -> float:
        """How many times lower the roof's time is if products and tensors have 16 bits."""
        flops = self.peaks.flops
        rates = [flops[dtype] for dtype in ("float16", "bfloat16") if dtype in flops]
        if not rates:
            return 1.0
        products = sum(self.work.products.values()) / max(rates)
        compute_s = products + self.work.other / self.peaks.rate("float32")
        return self.roof_s / max(compute_s, self.peaks.memory_seconds(self.work) / 2, 1e-12)

    def to_dict(self) -> JsonObject:
        """Plain JSON types."""
        return {
            "verdict": self.verdict,
            "advice": self.advice.text,
            "at_most": self.advice.at_most,
            "seconds": self.seconds,
            "flops": self.work.flops,
            "bytes": self.work.bytes,
            "passes": self.work.passes,
            "arithmetic_intensity": self.work.intensity,
            "compute_s": self.compute_s,
            "memory_s": self.memory_s,
            "launch_s": self.launch_s,
            "peak_share": self.peak_share,
            "bandwidth_share": self.bandwidth_share,
            "uncounted": list(self.work.uncounted),
        }

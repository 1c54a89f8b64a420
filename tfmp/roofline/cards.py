"""The peaks of NVIDIA's cards, from NVIDIA's own documents.

All rates are for dense matrices at boost clock. Products in 16 bits add up in float32, as training
needs it: GeForce cards take twice the time for this, other cards do not. FP64 is the rate of the
Tensor Cores where they compute in it, because cuBLAS uses them.
"""

import re
from dataclasses import dataclass

FLOAT64, FLOAT32, TF32, FLOAT16, BFLOAT16 = "float64", "float32", "tf32", "float16", "bfloat16"


@dataclass(frozen=True)
class Datasheet:
    """One row of the table.

    Attributes:
        pattern: regular expression for the driver's name, without "NVIDIA", "Tesla" and "GeForce".
        fp64, fp32, tf32, fp16, bf16: TFLOP/s; None if the card has no units for it.
        bandwidth: memory bandwidth in GB/s.
        source: the document.
    """

    pattern: str
    fp64: float
    fp32: float
    tf32: float | None
    fp16: float
    bf16: float | None
    bandwidth: float
    source: str

    @property
    def flops(self) -> dict[str, float]:
        """FLOP/s by dtype."""
        rates = {
            FLOAT64: self.fp64,
            FLOAT32: self.fp32,
            TF32: self.tf32,
            FLOAT16: self.fp16,
            BFLOAT16: self.bf16,
        }
        return {dtype: rate * 1e12 for dtype, rate in rates.items() if rate is not None}

    @property
    def bytes_per_second(self) -> float:
        """Memory bandwidth."""
        return self.bandwidth * 1e9


_VOLTA = "NVIDIA V100 datasheet (January 2020)"
_TURING = "NVIDIA Turing GPU Architecture, WP-09183-001, appendix A"
_A100 = "NVIDIA A100 datasheet (June 2021)"
_AMPERE = "NVIDIA Ampere GA102 GPU Architecture whitepaper V2, appendix A"
_ADA = "NVIDIA Ada GPU Architecture whitepaper V2, appendix A"
_H100 = "NVIDIA H100 datasheet"
_H200 = "NVIDIA H200 datasheet"
_BLACKWELL = "NVIDIA RTX Blackwell GPU Architecture whitepaper, appendix A"
_A6000 = "NVIDIA RTX A6000 datasheet; FP64 is 1/64 of FP32 on this chip"
_ADA_6000 = "NVIDIA RTX 6000 Ada datasheet; FP64 is 1/64 of FP32 on this chip"

TABLE = (
    Datasheet(r"V100-SXM2-(16|32)GB", 7.8, 15.7, None, 125, None, 900, _VOLTA),
    Datasheet(r"V100-PCIE-(16|32)GB", 7.0, 14.0, None, 112, None, 900, _VOLTA),
    Datasheet(r"T4", 0.25, 8.1, None, 65, None, 320, "NVIDIA T4 product page and datasheet"),
    # Founders Edition clocks.
    Datasheet(r"RTX 2080 Ti", 0.44, 14.2, None, 56.9, None, 616, _TURING),
    Datasheet(r"RTX 2080", 0.33, 10.6, None, 42.4, None, 448, _TURING),
    Datasheet(r"RTX 2070", 0.25, 7.9, None, 31.5, None, 448, _TURING),
    Datasheet(r"A100-(SXM4|PCIE)-40GB", 19.5, 19.5, 156, 312, 312, 1555, _A100),
    Datasheet(r"A100-SXM4-80GB", 19.5, 19.5, 156, 312, 312, 2039, _A100),
    Datasheet(r"A100 80GB PCIe", 19.5, 19.5, 156, 312, 312, 1935, _A100),
    Datasheet(r"A30", 10.3, 10.3, 82, 165, 165, 933, "NVIDIA A30 datasheet"),
    Datasheet(r"A10", 0.49, 31.2, 62.5, 125, 125, 600, "NVIDIA A10 datasheet; FP64 is FP32/64"),
    Datasheet(r"A40", 0.58, 37.4, 74.8, 149.7, 149.7, 696, "NVIDIA A40 datasheet; FP64 is FP32/64"),
    Datasheet(r"RTX A6000", 0.6, 38.7, 77.4, 154.8, 154.8, 768, _A6000),
    Datasheet(r"RTX 3090", 0.56, 35.6, 35.6, 71, 71, 936, _AMPERE),
    Datasheet(r"RTX 3080", 0.47, 29.8, 29.8, 59.5, 59.5, 760, _AMPERE),
    Datasheet(r"RTX 3070", 0.32, 20.3, 20.3, 40.6, 40.6, 448, _AMPERE),
    Datasheet(r"L4", 0.47, 30.3, 60.5, 121, 121, 300, "NVIDIA L4 datasheet; FP64 is FP32/64"),
    Datasheet(r"L40", 1.4, 90.5, 90.5, 181, 181, 864, "NVIDIA L40 datasheet; FP64 is FP32/64"),
    Datasheet(r"L40S", 1.4, 91.6, 183, 362, 362, 864, "NVIDIA L40S datasheet; FP64 is FP32/64"),
    Datasheet(r"RTX 6000 Ada Generation", 1.4, 91.1, 182.1, 364.2, 364.2, 960, _ADA_6000),
    Datasheet(r"RTX 4090", 1.3, 82.6, 82.6, 165.2, 165.2, 1008, _ADA),
    Datasheet(r"RTX 4080", 0.76, 48.7, 48.7, 97.5, 97.5, 716.8, _ADA),
    Datasheet(r"H100 80GB HBM3", 67, 67, 494.7, 989.4, 989.4, 3350, _H100),
    Datasheet(r"H100 PCIe", 51, 51, 378, 756, 756, 2000, _H100),
    Datasheet(r"H100 NVL", 60, 60, 417.5, 835.5, 835.5, 3900, _H100),
    Datasheet(r"H200", 67, 67, 494.7, 989.4, 989.4, 4800, _H200),
    Datasheet(r"H200 NVL", 60, 60, 417.5, 835.5, 835.5, 4800, _H200),
    Datasheet(r"B200", 37, 75, 1100, 2250, 2250, 7700, "NVIDIA HGX B200 datasheet, one of 8 GPUs"),
    Datasheet(r"RTX 5090", 1.64, 104.8, 104.8, 209.5, 209.5, 1792, _BLACKWELL),
    Datasheet(r"RTX 5080", 0.88, 56.3, 56.3, 112.6, 112.6, 960, _BLACKWELL),
    Datasheet(r"RTX 5070 Ti", 0.69, 43.9, 43.9, 87.9, 87.9, 896, _BLACKWELL),
    Datasheet(r"RTX 5070", 0.48, 30.9, 30.9, 61.7, 61.7, 672, _BLACKWELL),
)


def datasheet(name: str) -> Datasheet | None:
    """The row of a card by the driver's name; None for all others, and for slices of a card.

    A laptop's card, a "SUPER" or a "Ti" is another card than the one without it.
    """
    short = re.sub(r"^(NVIDIA|Tesla|GeForce|\s)+", "", name).strip()
    return next((row for row in TABLE if re.fullmatch(row.pattern, short)), None)

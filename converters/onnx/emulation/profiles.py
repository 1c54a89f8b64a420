"""Profiles of FP16 hardware for the emulator, by the short names that options use."""

from dataclasses import dataclass

from tfmp.converters.shared.errors import InputError

# Products that one tensor-core instruction sums before it writes an FP16 accumulator: k of
# mma.m16n8k16 with f16 accumulators (PTX ISA, "Matrix multiply-accumulate operation using mma").
# Inside it the hardware adds 4 (V100), 8 (A100) or 16 (H100) at a time (Fasi et al., "Numerical
# behavior of NVIDIA tensor cores", PeerJ CS 7:e330, 2021; Khattak and Mikaitis, "Accurate models
# of NVIDIA tensor cores", arXiv:2512.07004).
DEFAULT_BLOCK = 16


@dataclass(frozen=True)
class Profile:
    """A kind of FP16 hardware: the sums that the emulator rounds beside every FP16 tensor.

    Attributes:
        block: None for sums in FP32, as GPU kernels accumulate by default. Otherwise sums are
            held in FP16: this many terms are added in FP32, then the result so far is rounded.
    """

    block: int | None = None

    @classmethod
    def parse(cls, text: str) -> "Profile":
        """A profile from "gpu", "pessimistic" or "pessimistic:BLOCK".

        Raises:
            InputError: the text is another one.
        """
        name, colon, size = str(text).partition(":")
        if name == "gpu" and not colon:
            return cls()
        if name == "pessimistic":
            if not colon:
                return cls(DEFAULT_BLOCK)
            if size.isdecimal() and int(size) >= 1:
                return cls(int(size))
        raise InputError(
            f"emulate: expected 'gpu', 'pessimistic' or 'pessimistic:BLOCK' with BLOCK a number of "
            f"terms such as {DEFAULT_BLOCK}, received {text!r}."
        )

    def __str__(self) -> str:
        return "gpu" if self.block is None else f"pessimistic:{self.block}"

    def describe(self) -> str:
        """The profile in words, for reports."""
        if self.block is None:
            return "gpu: FP32 accumulation, every FP16 tensor rounded where a kernel writes it"
        return (
            f"{self}: as gpu, and sums inside matrix products, convolutions, reductions, softmax "
            f"and normalizations rounded to FP16 after every {self.block} terms"
        )


GPU = Profile()

"""Profiles of FP16 hardware for the emulator, by the short names that options use."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tfmp.converters.onnx.emulation.facts import (
    RUNTIMES,
    Fact,
    Kind,
    Version,
    facts_of,
    ops_of,
)
from tfmp.converters.onnx.fp16 import BF16_OPS, CUDA, EVERY, TARGETS
from tfmp.converters.shared.errors import InputError

# Products that one tensor-core instruction sums before it writes an FP16 accumulator: k of
# mma.m16n8k16 with f16 accumulators (PTX ISA, "Matrix multiply-accumulate operation using mma").
# Inside it the hardware adds 4 (V100), 8 (A100) or 16 (H100) at a time (Fasi et al., "Numerical
# behavior of NVIDIA tensor cores", PeerJ CS 7:e330, 2021; Khattak and Mikaitis, "Accurate models
# of NVIDIA tensor cores", arXiv:2512.07004).
DEFAULT_BLOCK = 16

# Softmax and normalizations add in FP32 in every known GPU kernel but WebGPU's, which are modelled.
_NORMALIZING = frozenset(
    """GroupNormalization InstanceNormalization LayerNormalization LogSoftmax LpNormalization LRN
    MeanVarianceNormalization RMSNormalization Softmax""".split()
)

_GPU, _PESSIMISTIC = "gpu", "pessimistic"
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})(\.\d{1,4})?")


@dataclass(frozen=True)
class Profile:
    """Hardware and runtime whose FP16 arithmetic is emulated.

    Attributes:
        name: "gpu" for kernels that hold sums in FP32, "pessimistic" for sums of products in FP16,
            or a runtime of `facts.RUNTIMES`.
        block: None for sums in FP32. Otherwise sums are held in FP16 where `adds_in_fp16` tells:
            this many terms are added in FP32, then the result so far is rounded.
        version: of the runtime, where its facts depend on it.
        tf32: whether nodes in FP32 multiply in TF32 where the runtime does so by default.
    """

    name: str = _GPU
    block: int | None = None
    version: Version | None = None
    tf32: bool = True

    @classmethod
    def parse(cls, text: str) -> "Profile":
        """A profile from its name, with a number of terms or a version behind a colon.

        Raises:
            InputError: the text is another one.
        """
        name, colon, detail = str(text).partition(":")
        runtime = RUNTIMES.get(name)
        if runtime is not None and runtime.version:
            found = _VERSION.fullmatch(detail if colon else runtime.version)
            if found is not None:
                return cls(name, version=(int(found[1]), int(found[2])))
        elif name == _PESSIMISTIC or (runtime is not None and _adds_in_fp16(name)):
            if not colon:
                return cls(name, 1 if runtime else DEFAULT_BLOCK)
            if detail.isdecimal() and int(detail) >= 1:
                return cls(name, int(detail))
        elif (name == _GPU or runtime is not None) and not colon:
            return cls(name)
        raise InputError(
            f"emulate: expected {', '.join(map(repr, NAMES[:-1]))} or {NAMES[-1]!r}, with BLOCK a "
            f"number of terms such as {DEFAULT_BLOCK} and VERSION such as "
            f"{RUNTIMES[CUDA].version}; received {text!r}."
        )

    def __str__(self) -> str:
        if self.version is not None:
            return f"{self.name}:{self.version[0]}.{self.version[1]}"
        if self.block is None or (self.name in RUNTIMES and self.block == 1):
            return self.name
        return f"{self.name}:{self.block}"

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """The facts about the runtime, without which the arithmetic is that of "gpu"."""
        found = facts_of(self.name, self.version)
        return found if self.tf32 else tuple(fact for fact in found if fact.kind is not Kind.TF32)

    def ops(self, kind: Kind) -> frozenset[str]:
        """The ops that the runtime computes in a way of this kind."""
        return ops_of(self.facts, kind)

    @cached_property
    def flushes(self) -> bool:
        """Whether subnormal FP16 numbers are zero."""
        return any(fact.kind is Kind.FLUSHED for fact in self.facts)

    def mended(self, fused: Collection[str]) -> "Iterator[tuple[Profile, str]]":
        """The runtime without one of the faults that can be switched off, and how to run it so.

        Args:
            fused: op types that its optimizer makes in a file.
        """
        for fact in self.facts:
            if fact.before is not None and fact.fix and fact.ops.intersection(fused):
                yield replace(self, version=fact.before), fact.fix
            elif fact.kind is Kind.TF32:
                yield replace(self, tf32=False), fact.fix

    @property
    def takes_bf16(self) -> bool:
        """Whether such hardware or such a runtime has kernels for bfloat16."""
        return self.name not in RUNTIMES or self.name in BF16_OPS

    def adds_in_fp16(self, op_type: str) -> bool:
        """Whether sums inside an op are held in FP16."""
        if self.block is None:
            return False
        pessimistic = self.name == _PESSIMISTIC and op_type not in _NORMALIZING
        return pessimistic or op_type in self.ops(Kind.SUMS)

    @property
    def runtime(self) -> str:
        """The hardware or runtime that a verdict on this profile holds for, in words."""
        if self.name == _GPU:
            return "GPU kernels that add in FP32"
        if self.name == _PESSIMISTIC:
            return "GPU kernels that add in FP16"
        version = ".".join(map(str, self.version)) if self.version else ""
        return RUNTIMES[self.name].title.format(version)

    def describe(self, title: str = "FP16") -> str:
        """The profile in words, for reports on a file that computes in FP16 or in BF16."""
        if self.name == _GPU:
            return f"gpu: FP32 accumulation, every {title} tensor rounded where a kernel writes it"
        if self.name == _PESSIMISTIC:
            return (
                f"{self}: as gpu, and sums inside matrix products, convolutions and reductions "
                f"rounded to {title} after every {self.block} terms"
            )
        told = "; ".join(map(str, self.facts))
        blocks = f" (in blocks of {self.block} terms)" if (self.block or 1) > 1 else ""
        return (
            f"{self}: as gpu, every {title} tensor rounded, on {self.runtime}, where {told}{blocks}"
        )


def _adds_in_fp16(runtime: str) -> bool:
    return any(fact.kind is Kind.SUMS for fact in facts_of(runtime))


def _form(name: str) -> str:
    if RUNTIMES[name].version:
        return f"{name}[:VERSION]"
    return f"{name}[:BLOCK]" if _adds_in_fp16(name) else name


# The forms of names that `Profile.parse` takes.
NAMES = (_GPU, f"{_PESSIMISTIC}[:BLOCK]", *map(_form, RUNTIMES))

GPU = Profile()


def profile_of(target: str | None) -> Profile:
    """The profile that a file is judged by if it was made for a target.

    Args:
        target: one of `fp16.TARGETS`, or None for "any".
    """
    return Profile.parse(target) if target in RUNTIMES else Profile.parse(CUDA)


def runtimes() -> dict[str, str]:
    """The runtimes of ONNX files, in words, by name."""
    return {name: Profile.parse(name).runtime for name in RUNTIMES if name in TARGETS}


def profiles_of(targets: Sequence[str]) -> tuple[Profile, ...]:
    """The profiles that a file is judged by for each of some targets; "all" is every runtime."""
    names = [*runtimes()] if EVERY in targets else [each for each in targets if each in RUNTIMES]
    return tuple(dict.fromkeys(map(Profile.parse, names)))

"""The limits of a device: FLOP/s by dtype, memory bandwidth, and the cost of starting work.

All are measured by short kernels: a large matrix product in each dtype, a large copy, an empty call
and a chain of tiny products. A datasheet would be of another card's clocks, or of a whole card.
"""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from keras import ops

from tfmp.machine import Device, devices, interleaved, timed
from tfmp.roofline.work import Work
from tfmp.shared.backend import Tensor, TensorTree, current_backend

FLOAT32, TF32 = "float32", "tf32"

# A matrix product of these sizes is a good share of the peak; it grows until it can be timed well.
_FIRST_SIZE, _LAST_SIZE = 256, 8192
_LONG_ENOUGH_S = 0.02
_COPIED_BYTES = 2**26
_TRIALS = 5

# Small products in a row that no compiler can fuse: one pass each.
_CHAIN = 64
_TINY = 8
# Calls of short functions that are timed at once, and how often.
_CALLS, _TURNS = 8, 40


@dataclass(frozen=True)
class Peaks:
    """The limits of a device.

    Attributes:
        flops: FLOP/s of matrix products by dtype; "tf32" for float32 numbers on Tensor Cores.
        bandwidth: bytes that memory delivers in a second.
        call_s: seconds of a compiled call that computes nothing.
        pass_s: seconds that one more tiny pass adds to a call.
    """

    flops: Mapping[str, float]
    bandwidth: float
    call_s: float
    pass_s: float

    def compute_seconds(self, work: Work, tf32: bool = False) -> float:
        """The least time for a program's FLOPs; float32 products may run as TF32.

        All that is no product runs outside Tensor Cores, at the rate of float32.
        """
        names = {FLOAT32: TF32 if tf32 and TF32 in self.flops else FLOAT32}
        products = sum(
            flops / self.rate(names.get(dtype, dtype)) for dtype, flops in work.products.items()
        )
        return products + work.other / self.rate(FLOAT32)

    def memory_seconds(self, work: Work) -> float:
        """The least time for a program's bytes."""
        return work.bytes / self.bandwidth

    def rate(self, dtype: str) -> float:
        """FLOP/s of products in a dtype; of one without units of its own, the float32 rate."""
        return self.flops.get(dtype, self.flops[FLOAT32])


@cache
def find_peaks(device: Device, dtypes: tuple[str, ...], jit: bool) -> Peaks:
    """The limits of the device that the backend computes on, measured once in a process.

    Args:
        device: the device.
        dtypes: the dtypes whose rates are needed.
        jit: whether models are compiled by XLA.
    """
    with devices.tf32_switched(False if device.tf32 else None):
        found = {dtype: _product_rate(dtype) for dtype in (FLOAT32, *dtypes)}
    if device.tf32:
        with devices.tf32_switched(True):
            found[TF32] = _product_rate(FLOAT32)
    rates = {dtype: rate for dtype, rate in found.items() if rate is not None}
    bandwidth = _host_copy_rate() if device.kind == "cpu" else _copy_rate()
    return Peaks(rates, bandwidth, *_overhead(jit))


def _product_rate(dtype: str) -> float | None:
    size = _FIRST_SIZE
    while True:
        try:
            square = _random(size, dtype)
            seconds = _fastest(current_backend().compiled(ops.matmul, jit=False), square, square)
        except Exception:  # a backend may raise any error for a dtype that it cannot multiply in
            return None
        if seconds >= _LONG_ENOUGH_S or size >= _LAST_SIZE:
            return 2 * float(size) ** 3 / seconds
        size *= 2


def _copy_rate() -> float:
    numbers = ops.zeros((_COPIED_BYTES // 4,), "float32")
    add = current_backend().compiled(lambda values: ops.add(values, 1.0), jit=False)
    seconds = _fastest(add, numbers)
    return 2 * _COPIED_BYTES / seconds


def _host_copy_rate() -> float:
    """Bytes a second of all cores together, into memory that the process already has."""
    threads = os.cpu_count() or 1
    source, target = np.ones((2, threads, _COPIED_BYTES // threads), np.uint8)
    with ThreadPoolExecutor(threads) as pool:

        def copy() -> None:
            list(pool.map(np.copyto, target, source))

        copy()
        seconds = min(timed(copy) for _ in range(_TRIALS))
    return 2 * source.nbytes / seconds


def _overhead(jit: bool) -> tuple[float, float]:
    """Seconds of an empty call, and of one tiny pass in a call."""
    tiny = _random(_TINY, FLOAT32)

    def chain(values: Tensor) -> Tensor:
        for _ in range(_CHAIN):
            values = ops.matmul(values, tiny)
        return values

    def calls(function: Callable[..., TensorTree]) -> TensorTree:
        for _ in range(_CALLS):
            last = function(tiny)
        return last

    compiled = current_backend().compiled
    functions = compiled(lambda values: ops.add(values, 1.0), jit), compiled(chain, jit)
    blocks = {str(place): partial(timed, partial(calls, f)) for place, f in enumerate(functions)}
    for block in blocks.values():
        block()
    # In turns, so that other work of the machine hits both, and often, so that some run without it.
    found = interleaved(blocks, _TURNS)
    empty, long = (min(found[name].seconds) / _CALLS for name in blocks)
    return empty, max(0.0, long - empty) / _CHAIN


def _random(size: int, dtype: str) -> Tensor:
    values = np.random.default_rng(0).standard_normal((size, size), np.float32)
    return ops.cast(ops.convert_to_tensor(values / size), dtype)


def _fastest(function: Callable[..., TensorTree], *arguments: Tensor) -> float:
    """Seconds of the fastest call: other work of the machine only adds time."""
    call = partial(function, *arguments)
    call()
    return min(timed(call) for _ in range(_TRIALS))

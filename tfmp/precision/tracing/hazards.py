"""Operations of a traced layer that leave FP16's range although its inputs and outputs fit.

A layer is traced as it is and in FP16. A constant such as -1e9 or 1e-9 that is no float32 constant
any more in the second trace is infinite or 0 there.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tfmp.precision.tracing.coarse_numbers import (
    LARGEST_EXACT_INTEGER,
    coarse_integers,
    widest_angle,
)
from tfmp.precision.tracing.exponents import (
    POWERS,
    exponential_in,
    high_power,
    is_large_exponential,
    is_square,
    layers_behind,
    returned_power,
    rounded_before_logarithm,
    rounds_mean_square,
    small_divisor,
    summed_products,
)
from tfmp.precision.tracing.values import Value
from tfmp.shared.numerics import FLOAT16

# A sum over so many values passes 65504 where they are 512 on average, as activations may be.
LONG_SUM = 128

# A product of so many values passes 65504 where they are 40 on average.
LONG_PRODUCT = 3

CONSTANT = "constant"
SUM = "sum"
SQUARE = "square"
PRODUCT = "product"
PROMOTION = "promotion"
EXPONENTIAL = "exponential"
LOGARITHM = "logarithm"
POWER = "power"
DIVISOR = "divisor"
FACTORS = "factors"
TANH = "tanh"
INTEGERS = "integers"
ANGLE = "angle"
RESULT = "result"
ARGUMENT = "argument"


@dataclass(frozen=True)
class Fact:
    """An operation that may be a hazard.

    Attributes:
        layer: id of the layer whose own code has it.
        kind: `CONSTANT`, `SUM`, `SQUARE`, `PRODUCT` (a matrix product or convolution),
            `PROMOTION` (16 bits become float32), `EXPONENTIAL` (of a number that may be large),
            `LOGARITHM` (of a share in FP16), `POWER`, `DIVISOR` (a constant), `FACTORS` (a product
            over an axis), `TANH`, `INTEGERS` (past 2048), `ANGLE` (of a sine), `RESULT` (a power
            that is returned) or `ARGUMENT` (an exponential that a layer reads).
        dtype: the dtype that the operation computes in.
        number: the constant, the number of values in a sum or factors in a product (infinity if it
            is unknown), the divisor, or the exponent of a power or square, or that of the power
            that a `TANH` is taken of.
        line: file and line of the user's code that promotes, if it is known.
        bound: the largest magnitude of the values in a sum that leaves the range, if it is known.
        others: ids of the layers whose results an exponential is computed from, or that hold the
            share of a logarithm; of an argument the layer that made it, and the one that took the
            exponential.
    """

    layer: int
    kind: str
    dtype: str
    number: float = 0.0
    line: str = ""
    bound: float = math.inf
    others: tuple[int, ...] = ()


def of_constant(layer: int, dtype: str, values: np.ndarray) -> Iterator[Fact]:
    """The facts about a constant array: its values that FP16 cannot hold."""
    if not values.size or values.dtype.kind not in "fV":
        return
    exact = np.abs(np.asarray(values, np.float64))
    finite = exact[np.isfinite(exact) & (exact > 0)]
    if finite.size and finite.max() >= FLOAT16.overflow_threshold:
        yield Fact(layer, CONSTANT, dtype, float(finite.max()))
    if finite.size and finite.min() <= FLOAT16.smallest_subnormal / 2:
        yield Fact(layer, CONSTANT, dtype, float(finite.min()))


def of_value(layer: int, dtype: str, value: Value) -> Iterator[Fact]:
    """The facts about a value that an operation makes."""
    if value.kind in POWERS:
        power = high_power(value)
        if power is not None:
            yield Fact(layer, POWER, dtype, power)
    if is_square(value) or rounds_mean_square(value):
        yield Fact(layer, SQUARE, dtype, value.power or 2.0)
    if is_large_exponential(value):
        yield Fact(layer, EXPONENTIAL, dtype, others=tuple(layers_behind(value)))
    held = rounded_before_logarithm(value)
    if held is not None:
        yield Fact(layer, LOGARITHM, dtype, others=tuple(held))
    divisor = small_divisor(value)
    if divisor is not None:
        yield Fact(layer, DIVISOR, dtype, divisor)
    terms = summed_products(value)
    if terms > 1:
        yield Fact(layer, SUM, dtype, terms)
    integers = coarse_integers(value)
    if integers is not None:
        narrow = "float16" if integers.dtype == "float16" else dtype
        yield Fact(layer if integers.layer is None else integers.layer, INTEGERS, narrow)
    angle = widest_angle(value)
    if angle is not None:
        yield Fact(layer, ANGLE, dtype, angle)


def of_tanh(layer: int, dtype: str, value: Value) -> Fact:
    """The fact about a hyperbolic tangent."""
    degrees = value.sources[0].growth().values() if value.sources else ()
    return Fact(layer, TANH, dtype, max(degrees, default=0.0))


def of_result(layer: int, value: Value) -> Iterator[Fact]:
    """The fact about a layer's result if that is a high power, whatever the next layer casts."""
    power = returned_power(value)
    if power is not None:
        yield Fact(layer, RESULT, "", power)


def of_argument(layer: int, value: Value) -> Iterator[Fact]:
    """The fact about a value that a layer reads if that is an exponential, whatever it casts."""
    exponential = exponential_in(value)
    if exponential is None:
        return
    maker, origin = value.moved().layer, exponential.layer
    if maker is not None and origin is not None:
        yield Fact(layer, ARGUMENT, "", others=(maker, origin))


def hazards(before: Iterable[Fact], trial: Iterable[Fact]) -> Mapping[int, str]:
    """Reasons to keep layers in float32, by id of the layer.

    Args:
        before: the facts of the layers as they are, in float32.
        trial: the facts of the same layers in float16.
    """
    found: dict[int, str] = {}
    trial = list(trial)
    wide = Counter(fact for fact in before if fact.kind == CONSTANT and fact.dtype == "float32")
    wide.subtract(fact for fact in trial if fact.kind == CONSTANT and fact.dtype == "float32")
    for fact, narrowed in wide.items():
        if narrowed > 0:
            fate = "infinite" if fact.number > 1 else "0"
            found.setdefault(
                fact.layer, f"computes with the constant {fact.number:g}, {fate} in float16"
            )
    for fact in trial:
        overflows = fact.number >= LONG_SUM or math.isfinite(fact.bound)
        if fact.kind == SUM and fact.dtype == "float16" and overflows:
            found.setdefault(fact.layer, f"sums {_many(fact.number)} values in float16")
        if fact.kind == EXPONENTIAL and fact.dtype == "float16":
            found.setdefault(fact.layer, "takes exponentials, infinite in float16 from 11.1 on")
        if fact.kind == DIVISOR and fact.dtype == "float16":
            largest = fact.number * FLOAT16.overflow_threshold
            found.setdefault(
                fact.layer,
                f"divides by {fact.number:.3g}, which is infinite in float16 from {largest:.2g} on",
            )
        if fact.kind == INTEGERS and fact.dtype == "float16":
            found.setdefault(
                fact.layer,
                f"computes with whole numbers, exact in float16 up to {LARGEST_EXACT_INTEGER}",
            )
        if fact.kind == ANGLE and fact.dtype == "float16":
            found.setdefault(fact.layer, f"takes sines of {_angles(fact.number)}")
        if fact.kind == FACTORS and fact.dtype == "float16" and fact.number >= LONG_PRODUCT:
            found.setdefault(fact.layer, f"multiplies {_many(fact.number)} values in float16")
    found = {**_powers(trial), **found}
    # A norm or a variance, which divides by its root: no NaN tells of an infinite one.
    sums = {fact.layer for fact in trial if fact.kind == SUM}
    saturated = _saturated(trial)
    for fact in trial:
        if fact.kind != SQUARE or (fact.number == 3 and fact.layer in saturated):
            continue
        if fact.dtype == "float16" and fact.layer in sums:
            found.setdefault(fact.layer, "sums squares that are infinite in float16 from 256 on")
    return found


def _many(number: float) -> str:
    return f"{number:.0f}" if np.isfinite(number) else "any number of"


def _angles(largest: float) -> str:
    if np.isinf(largest):
        return "positions times frequencies, which float16 rounds"
    error = largest / 2 ** (FLOAT16.fraction_bits + 1)
    return f"angles up to {largest:.3g}, off by {error:.2g} in float16"


def _powers(trial: Iterable[Fact]) -> Mapping[int, str]:
    """Reasons of the layers that take high powers, by id of the layer."""
    found: dict[int, str] = {}
    trial = list(trial)
    saturated = _saturated(trial)
    narrow = [fact for fact in trial if fact.kind == POWER and fact.dtype == "float16"]
    for fact in sorted(narrow, key=lambda fact: -abs(fact.number)):
        if fact.number == 3 and fact.layer in saturated:
            continue
        if np.isinf(fact.number):
            reason = "takes powers with exponents that are no constants"
        elif fact.number > 0:
            largest = FLOAT16.overflow_threshold ** (1 / fact.number)
            reason = f"takes powers that are infinite in float16 from {largest:.3g} on"
        else:
            smallest = FLOAT16.overflow_threshold ** (1 / (fact.number - 1))
            reason = f"takes powers whose gradients are infinite in float16 up to {smallest:.2g}"
        found.setdefault(fact.layer, reason)
    return found


def _saturated(trial: Iterable[Fact]) -> frozenset[int]:
    """The layers whose cubes are those in GELU: its tanh is 1 where the cube is infinite."""
    cubes = Counter(fact.layer for fact in trial if fact.kind == POWER and fact.number == 3)
    tanhs = Counter(fact.layer for fact in trial if fact.kind == TANH and fact.number == 3)
    return frozenset(layer for layer, count in tanhs.items() if cubes[layer] <= count)


def promoted(trial: Iterable[Fact]) -> Mapping[int, str]:
    """Layers that multiply in float32 although they get 16 bits: the line that promotes, by id.

    Args:
        trial: the facts of the layers in 16 bits.
    """
    trial = list(trial)
    wide = {fact.layer for fact in trial if fact.kind == PRODUCT and fact.dtype == "float32"}
    lines: dict[int, str] = {}
    for fact in trial:
        if fact.kind == PROMOTION and fact.layer in wide:
            lines.setdefault(fact.layer, fact.line)
    return lines

"""The work of an XLA program: floating-point operations, and bytes that cross the memory bus.

The counts come from the program as the framework hands it to XLA: there matrix products and
convolutions are still themselves, while the compiled program holds calls of libraries (oneDNN,
cuBLAS, cuDNN), which XLA's cost analysis takes for free. Loops count as often as they run.

FLOPs: an addition, a multiplication and any other function of real numbers is one, so that a
matrix product of sizes m, k and n has 2mkn. Products of a convolution with padding are left out.

Bytes follow the passes over memory that a compiler with loop fusion makes. A matrix product, a
convolution, a reduction, a lookup or a sort reads its operands from memory and writes its result.
All that works element by element is fused into the pass that needs it, except that products and
convolutions find their operands in memory, cast and computed. Slices read their part only, and
updates in loops write in place. Caches are not counted: a tensor is read once in each pass.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import prod
from typing import TypeAlias

from tfmp.roofline.loops import Known, fold, run_loop
from tfmp.roofline.products import convolution_flops, dot_flops
from tfmp.roofline.program import Array, Instruction, Program, Shape, read_program
from tfmp.roofline.work import Work


def count_work(content: bytes, first_results: int = 0) -> Work:
    """Counts the work of a program.

    Args:
        content: XLA's program before optimization, as a serialized `HloModuleProto`.
        first_results: number of results that are in memory before the others are computed.
    """
    program = read_program(content)
    arguments = {
        line.proto.parameter_number: _in_memory(line.shape)
        for line in program.computations[program.entry]
        if line.opcode == "parameter"
    }
    return _Counting(program).body(program.entry, arguments, first_results)


_names = count()


@dataclass(eq=False)
class _Numbers:
    """The numbers of one array, in whatever order and shape they are looked at.

    Attributes:
        reads: bytes that computing them reads, by the arrays in memory; once they are in memory
            themselves, their own.
        stored: whether they are in memory.
        known: their value, if it is a known whole number.
    """

    reads: dict[int, int]
    stored: bool = False
    known: Known = None


@dataclass(frozen=True)
class _Tensor:
    """One array in the program; those of the same numbers are one in memory."""

    shape: Array
    numbers: _Numbers

    @property
    def stored(self) -> bool:
        return self.numbers.stored

    def store(self) -> "_Tensor":
        """Puts it into memory."""
        self.numbers.reads = {next(_names): self.shape.bytes}
        self.numbers.stored = True
        return self


_Value: TypeAlias = "_Tensor | tuple[_Value, ...]"

_ARITHMETIC = frozenset(
    "add subtract multiply divide remainder power maximum minimum atan2 exponential "
    "exponential-minus-one log log-plus-one logistic tanh tan sine cosine sqrt rsqrt cbrt erf "
    "clamp".split()
)
_VIEWS = frozenset("reshape transpose reverse bitcast copy reduce-precision".split())
# Operations that are passes of their own, beside products.
_PASSES = frozenset(
    "reduce reduce-window select-and-scatter gather scatter sort fft cholesky triangular-solve rng "
    "rng-bit-generator custom-call topk batch-norm-training batch-norm-inference "
    "batch-norm-grad".split()
)


class _Counting:
    """Walks through a program from its results and adds up its work."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._work = Work()
        # An instruction that stands twice runs once: compilers find such pairs first.
        self._done: dict[object, _Value] = {}

    def body(self, number: int, arguments: Mapping[int, _Value], first_results: int = 0) -> Work:
        """The work of one run of a computation whose results go to memory."""
        outer, self._work = self._work, Work()
        results = _arrays(self._call(number, arguments))
        self._write(results[:first_results])
        self._write(results[first_results:])
        work, self._work = self._work, outer
        return work

    def _call(self, number: int, arguments: Mapping[int, _Value]) -> _Value:
        values: dict[int, _Value] = {}
        for line in self._program.computations[number]:
            if line.opcode == "parameter":
                result = arguments[line.proto.parameter_number]
            else:
                operands = [values[each] for each in line.proto.operand_ids]
                key = (line.settings, *operands, *self._called(line))
                if key not in self._done:
                    self._done[key] = self._run(line, operands)
                result = self._done[key]
            values[line.proto.id] = result
        return result

    def _called(self, line: Instruction) -> list[object]:
        """What an instruction calls; of a reduction's function its operations."""
        if line.opcode in _PASSES:
            return [part.opcode for part in self._inner(line)]
        return list(line.calls)

    def _inner(self, line: Instruction) -> list[Instruction]:
        """The instructions of the function that a reduction applies."""
        return [part for number in line.calls[-1:] for part in self._program.computations[number]]

    def _run(self, line: Instruction, operands: list[_Value]) -> _Value:
        opcode = line.opcode
        if opcode in ("constant", "iota"):  # the compiler puts it into the code of the pass
            return _Tensor(line.array, _Numbers({}, known=fold(self._program, line, ())))
        if opcode == "tuple":
            return tuple(operands)
        if opcode == "get-tuple-element":
            assert isinstance(operands[0], tuple)
            return operands[0][line.proto.tuple_index]
        if opcode == "call":
            return self._call(line.calls[0], dict(enumerate(operands)))
        if opcode == "while":
            return self._loop(line, operands[0])
        if opcode == "conditional":
            return self._branches(line, operands[1:])
        tensors = _arrays(operands)
        same = opcode == "convert" and tensors[0].shape == line.shape
        if (same or opcode in _VIEWS) and len(operands) == len(tensors) == 1:
            return _Tensor(line.array, tensors[0].numbers)
        if opcode in ("dot", "convolution"):
            self._write(tensors)
            flops = (dot_flops if opcode == "dot" else convolution_flops)(
                line, tensors[0].shape, tensors[1].shape
            )
            dtype = tensors[0].shape.floating or tensors[0].shape.dtype
            return self._pass(line, tensors, Work({dtype: flops} if flops else {}))
        if opcode == "optimization-barrier":
            self._write(tensors)
            return operands[0] if len(operands) == 1 else tuple(operands)
        if opcode == "dynamic-update-slice":
            return self._update(line, tensors)
        if opcode in _PASSES:
            return self._pass(line, tensors, self._other_work(line, tensors))
        return self._element_by_element(line, tensors)

    def _element_by_element(self, line: Instruction, tensors: list[_Tensor]) -> _Tensor:
        shape = line.array
        if line.opcode in _ARITHMETIC and shape.floating:
            self._work += Work(other=shape.size)
        if line.opcode in ("slice", "dynamic-slice"):
            whole = tensors[0].numbers
            part = shape.size / max(1, tensors[0].shape.size)
            # Another slice of the same tensor is another read.
            reads = {next(_names): round(size * part) for size in whole.reads.values()}
            return _Tensor(shape, _Numbers(reads, whole.stored))
        known = fold(self._program, line, [tensor.numbers.known for tensor in tensors])
        return _Tensor(shape, _Numbers(_reads(tensors), known=known))

    def _pass(self, line: Instruction, tensors: Iterable[_Tensor], work: Work) -> _Value:
        """Adds an operation that reads its operands and writes its results."""
        result = _in_memory(line.shape)
        read = _bytes_read(tensors)
        if line.opcode == "gather":  # rows of a table, and their numbers
            table, *numbers = tensors
            read = min(_bytes_read([table]), line.array.bytes) + _bytes_read(numbers)
        written = sum(tensor.shape.bytes for tensor in _arrays(result))
        self._work += work + Work(bytes=read + written, passes=1)
        return result

    def _update(self, line: Instruction, tensors: list[_Tensor]) -> _Tensor:
        """Writes a part of a tensor in place."""
        whole, part = tensors[0], tensors[1]
        self._write([whole])
        self._work += Work(bytes=_bytes_read([part]) + part.shape.bytes, passes=1)
        return _Tensor(line.array, _Numbers({})).store()

    def _write(self, tensors: Iterable[_Tensor]) -> None:
        """Computes tensors into memory; tensors of one shape share a pass."""
        groups: dict[tuple[int, ...], list[_Tensor]] = {}
        for tensor in {tensor.numbers: tensor for tensor in tensors}.values():
            if not tensor.stored:
                groups.setdefault(tensor.shape.dims, []).append(tensor)
        for group in groups.values():
            written = sum(tensor.shape.bytes for tensor in group)
            self._work += Work(bytes=_bytes_read(group) + written, passes=1)
            for tensor in group:
                tensor.store()

    def _loop(self, line: Instruction, start: _Value) -> _Value:
        trips, known = run_loop(self._program, line, _known(start))
        self._write(tensor for tensor in _arrays(start) if tensor.shape.dims)
        work = self.body(line.calls[0], {0: _in_memory(line.shape)})
        if trips is None:
            self._work += Work(uncounted=("a loop whose length depends on data, counted once",))
        self._work += work.times(1 if trips is None else trips)
        return _in_memory(line.shape, known)

    def _branches(self, line: Instruction, arguments: Sequence[_Value]) -> _Value:
        """Counts the branch that costs most."""
        self._write(_arrays(arguments))
        works = [
            self.body(number, {0: argument})
            for number, argument in zip(line.calls, arguments, strict=True)
        ]
        self._work += max(works, key=lambda work: (work.flops, work.bytes))
        return _in_memory(line.shape)

    def _other_work(self, line: Instruction, tensors: list[_Tensor]) -> Work:
        opcode = line.opcode
        if opcode == "custom-call":
            return Work(uncounted=(line.proto.custom_call_target,))
        if opcode in ("fft", "cholesky", "triangular-solve") or opcode.startswith("batch-norm"):
            return Work(uncounted=(opcode,))
        if opcode in ("gather", "sort", "topk") or not line.array.floating:
            return Work()
        window = prod(axis.size for axis in line.proto.window.dimensions)
        runs = {
            "reduce": tensors[0].shape.size - line.array.size,
            "reduce-window": line.array.size * (window - 1),
            "scatter": tensors[-1].shape.size,
            "select-and-scatter": tensors[1].shape.size,
        }.get(opcode, 0)
        return Work(other=runs * sum(part.opcode in _ARITHMETIC for part in self._inner(line)))


def _in_memory(shape: Shape, known: Known = None) -> _Value:
    if isinstance(shape, tuple):
        parts = known if isinstance(known, tuple) else (None,) * len(shape)
        return tuple(map(_in_memory, shape, parts))
    return _Tensor(shape, _Numbers({}, known=known)).store()


def _arrays(value: "_Value | Sequence[_Value]") -> list[_Tensor]:
    if isinstance(value, _Tensor):
        return [value]
    return [tensor for part in value for tensor in _arrays(part)]


def _known(value: _Value) -> Known:
    if isinstance(value, _Tensor):
        return value.numbers.known
    return tuple(_known(part) for part in value)


def _reads(tensors: Iterable[_Tensor]) -> dict[int, int]:
    """What a pass over some tensors reads, by the arrays in memory."""
    reads: dict[int, int] = {}
    for tensor in tensors:
        for name, size in tensor.numbers.reads.items():
            reads[name] = max(size, reads.get(name, 0))
    return reads


def _bytes_read(tensors: Iterable[_Tensor]) -> int:
    return sum(_reads(tensors).values())

"""Runs a .tflite file with LiteRT, in a worker process.

TensorFlow is never imported here: on a device the file meets only LiteRT, which starts in a
fraction of a second.
"""

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path

import ai_edge_litert
import numpy as np
from ai_edge_litert.compiled_model import (
    CompiledModel,
    CpuOptions,
    HardwareAccelerator,
    Options,
    TensorBuffer,
)

from tfmp.converters.shared.errors import RunnerError
from tfmp.converters.shared.tensors import Batch, TensorSpec, describe, in_pieces
from tfmp.converters.tflite.file.reader import TFLiteModel

# TFLITE_XNNPACK_DELEGATE_FLAG_FORCE_FP16 in tflite/delegates/xnnpack/xnnpack_delegate.h
_FORCE_FP16 = 4

# LiteRT's Python buffers take no 64-bit numbers; their bytes pass as pairs of 32-bit ones.
_CARRIED_AS = {"int64": np.dtype(np.int32), "uint64": np.dtype(np.int32)}

# Bytes; LiteRT takes memory that is not its own only from such addresses (tensor_buffer.py).
_ALIGNMENT = 64
# What each byte of memory holds before the first run. As a float this is a NaN that no arithmetic
# gives; as an integer it is hardly the answer of a model, which -1 may be.
_UNTOUCHED_FLOAT, _UNTOUCHED = 0xFF, 0xA5

# Operators whose results have as many rows as their values make them.
_CHOOSING = frozenset({"WHERE", "UNIQUE"})


class Interpreter:
    """One loaded file; the object that a `Worker` holds."""

    def __init__(
        self,
        path: Path,
        mode: str = "cpu",
        signature: str | None = None,
        vulkan_loader: str | None = None,
    ) -> None:
        """Loads the file.

        Args:
            path: a .tflite file.
            mode: "cpu", "fp16" (the CPU, forced to compute in FP16) or "gpu".
            signature: name of the entry point to run; the first one if None.
            vulkan_loader: path of the GPU's Vulkan loader.

        Raises:
            RunnerError: the file needs the Flex delegate, or LiteRT refuses it.
        """
        file = TFLiteModel(path)
        if file.flex_ops:
            raise RunnerError(
                f"{path.name} needs the TensorFlow (Flex) delegate for {', '.join(file.flex_ops)}, "
                "which plain LiteRT does not have. Convert it with a fixed batch size, without "
                "--allow-flex."
            )
        chosen = file.signature(signature)
        self._key = signature or file.entry_point()
        self.inputs, self.outputs = chosen.inputs, chosen.outputs
        self._batch_size = chosen.batch_size
        self._whole = chosen.takes_whole_calls
        self._resizable = any(None in spec.shape for spec in self.inputs)
        self._open = any(None in spec.shape for spec in (*self.inputs, *self.outputs))
        # Whether the size of an output follows from values, and not from sizes of inputs or loops.
        names = {operator.name for operator in file.operators}
        fixed = not self._resizable and "WHILE" not in names
        self._ragged = any(None in spec.shape for spec in self.outputs) and (
            fixed or not _CHOOSING.isdisjoint(names)
        )
        self._path, self._mode = path, mode
        if vulkan_loader:
            # LiteRT opens it by its bare name, which finds a library that is loaded already.
            ctypes.CDLL(vulkan_loader, mode=ctypes.RTLD_GLOBAL)
        self._model = _load(path, mode)
        self._key = self._key or next(iter(self._model.get_signature_list()))
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._buffers: tuple[dict[str, TensorBuffer], dict[str, TensorBuffer]] | None = None
        self._output_shapes: dict[str, list[int]] = {}
        self._memory: dict[str, np.ndarray] = {}
        self._off_grid: set[str] = set()

    def describe(self) -> tuple[str, bool]:
        """LiteRT's version, and whether the accelerator that was asked for runs every operator."""
        return ai_edge_litert.__version__, self._model.is_fully_accelerated()

    def run(self, batch: Batch) -> tuple[Batch, tuple[str, ...]]:
        """Runs any number of samples, with files of any batch size.

        Args:
            batch: arrays by input name, all with the same first size.

        Returns:
            Arrays by output name, and the names of float outputs with a finite value so far that
            FP16 cannot hold: FP16 arithmetic never gives one, FP32 arithmetic nearly always.

        Raises:
            RunnerError: an input does not fit, or LiteRT fails.
        """
        arrays = {spec.name: self._fitted(batch, spec) for spec in self.inputs}
        chunks = [] if self._whole else list(self._chunks(arrays))
        if self._whole:
            results = self._run_once(self._of_its_sizes(arrays))
        elif len(chunks) == 1 and chunks[0][1] == (self._batch_size or chunks[0][1]):
            results = self._run_once(chunks[0][0])
        else:
            parts = [self._rows(chunk, rows) for chunk, rows in chunks]
            results = {
                spec.name: np.concatenate([part[spec.name] for part in parts])
                for spec in self.outputs
            }
        for name, values in results.items():
            if values.dtype == np.float32 and not _on_float16_grid(values):
                self._off_grid.add(name)
        return results, tuple(sorted(self._off_grid))

    def run_whole(self, inputs: Batch) -> Batch:
        """Runs once, with arrays whose first axis need not be that of the samples."""
        return self._run_once({spec.name: self._fitted(inputs, spec) for spec in self.inputs})

    @staticmethod
    def answer(probe: Path, batch: Batch) -> Batch:
        """The outputs of another file on the CPU that is forced to compute in FP16.

        Args:
            probe: a .tflite file.
            batch: arrays by its input names.
        """
        return Interpreter(probe, "fp16").run(batch)[0]

    def prepared(self, batch: Batch, rows: int) -> tuple[Callable[[], None], int]:
        """One call of the file with its inputs in place, and the number of samples that it takes.

        Args:
            batch: arrays by input name.
            rows: number of samples in them.

        Raises:
            RunnerError: an input does not fit.
        """
        arrays = {spec.name: self._fitted(batch, spec) for spec in self.inputs}
        if self._whole:
            chunk = self._of_its_sizes(arrays)
        else:
            chunk, real = next(self._chunks(arrays))
            rows = self._batch_size or real
        self._run_once(chunk)
        given, taken = self._buffers_for(chunk)
        return lambda: self._model.run_by_name(self._key, given, taken), rows

    def _fitted(self, batch: Batch, spec: TensorSpec) -> np.ndarray:
        if spec.name not in batch:
            raise RunnerError(
                f"no array for input {spec}; received {', '.join(map(repr, batch)) or 'none'}"
            )
        array = np.asarray(batch[spec.name])
        if not spec.accepts(array):
            raise RunnerError(
                f"input {spec} received {array.dtype}{list(array.shape)}; the inputs are "
                f"{describe(self.inputs)}"
            )
        return np.asarray(array, dtype=spec.dtype, order="C")

    def _of_its_sizes(self, arrays: Batch) -> Batch:
        """The arrays of a file that is not cut into samples, if they are those of one call."""
        for spec in self.inputs:
            if not spec.takes(arrays[spec.name]):
                received = list(arrays[spec.name].shape)
                raise RunnerError(
                    f"input {spec} received an array of shape {received}; the inputs begin "
                    "with different sizes, so calls cannot be cut into samples. Compare with a "
                    "model of the same sizes."
                )
        return arrays

    def _chunks(self, arrays: Batch) -> Iterator[tuple[Batch, int]]:
        """Pieces of the file's batch size, with how many of their rows are real."""
        counts = {name: len(array) for name, array in arrays.items() if array.ndim}
        if len(set(counts.values())) > 1:
            sizes = ", ".join(f"{name}: {count}" for name, count in counts.items())
            raise RunnerError(f"the inputs have different numbers of samples ({sizes})")
        return in_pieces(arrays, self._batch_size)

    def _rows(self, chunk: Batch, rows: int) -> Batch:
        """The outputs of the first rows of a piece."""
        results = self._run_once(chunk)
        size = self._batch_size or rows
        for name, values in results.items():
            if values.shape[:1] != (size,):
                raise RunnerError(
                    f"output {name!r} has shape {list(values.shape)} for a batch of {size}: its "
                    "first size is not the batch, so samples cannot be separated"
                )
        return {name: values[:rows] for name, values in results.items()}

    def _run_once(self, chunk: Batch) -> Batch:
        if self._ragged:
            self._refuse([spec.name for spec in self.outputs if None in spec.shape])
        given, taken = self._buffers_for(chunk)
        for name, buffer in given.items():
            array = chunk[name]
            carried = _CARRIED_AS.get(array.dtype.name, array.dtype)
            buffer.write(array.reshape(-1).view(carried))
        self._model.run_by_name(self._key, given, taken)
        lost = [name for name, memory in self._memory.items() if _untouched(memory)]
        if lost:
            self._refuse(lost)
            return self._allocating(chunk)
        return {
            spec.name: _read(taken[spec.name], self._output_shapes[spec.name], np.dtype(spec.dtype))
            for spec in self.outputs
        }

    def _buffers_for(self, chunk: Batch) -> tuple[dict[str, TensorBuffer], dict[str, TensorBuffer]]:
        """Where inputs are written and outputs appear, for arrays of these shapes."""
        shapes = {name: array.shape for name, array in chunk.items()}
        # LiteRT takes memory for such an output only before its first run.
        if self._buffers is None or shapes != self._shapes or self._memory or self._ragged:
            if self._memory:
                self._model = _load(self._path, self._mode)
            if self._resizable:
                for name, shape in shapes.items():
                    self._model.resize_input_tensor_by_name(self._key, name, shape)
            model, key = self._model, self._key
            inputs = {s.name: model.create_input_buffer_by_name(key, s.name) for s in self.inputs}
            self._buffers = inputs, self._output_buffers(chunk)
            self._shapes = shapes
        return self._buffers

    def _output_buffers(self, chunk: Batch) -> dict[str, TensorBuffer]:
        """Buffers for the outputs.

        LiteRT knows the shape of some outputs only once they are computed. Its own buffers are then
        too small, which ends in an error or in damaged memory.
        """
        model, key = self._model, self._key
        known = {n: list(d["shape"]) for n, d in model.get_output_tensor_details(key).items()}
        real = known
        if self._open:
            real = {name: list(array.shape) for name, array in self._allocating(chunk).items()}
        self._output_shapes = real
        self._memory = {
            spec.name: _memory(real[spec.name], np.dtype(spec.dtype))
            for spec in self.outputs
            if real[spec.name] != known[spec.name]
        }
        return {
            name: TensorBuffer.create_from_host_memory(self._memory[name])
            if name in self._memory
            else model.create_output_buffer_by_name(key, name)
            for name in (spec.name for spec in self.outputs)
        }

    def _refuse(self, names: list[str]) -> None:
        """Raises `RunnerError` for outputs that LiteRT does not hand out, but in FP32."""
        if self._mode != "cpu":
            raise RunnerError(
                f"LiteRT does not hand out {', '.join(map(repr, names))}, because it knows the "
                "size only after the computation. Fix the input sizes: convert with --input-shape"
            )

    def _allocating(self, chunk: Batch) -> Batch:
        """The outputs by LiteRT's older interpreter, which allocates as it goes, in FP32."""
        from ai_edge_litert.interpreter import Interpreter as AllocatingInterpreter

        plain = AllocatingInterpreter(str(self._path))
        if plain.get_signature_list():
            return dict(plain.get_signature_runner(self._key)(**chunk))
        given, taken = plain.get_input_details(), plain.get_output_details()
        for detail in given:
            plain.resize_tensor_input(detail["index"], chunk[detail["name"]].shape)
        plain.allocate_tensors()
        for detail in given:
            plain.set_tensor(detail["index"], chunk[detail["name"]])
        plain.invoke()
        return {detail["name"]: plain.get_tensor(detail["index"]) for detail in taken}


def _memory(shape: list[int], dtype: np.dtype) -> np.ndarray:
    """Memory that LiteRT takes as a buffer: aligned, and as long as a tensor of that shape."""
    size = max(int(np.prod(shape)) * dtype.itemsize, 1)
    raw = np.full(size + _ALIGNMENT, _untouched_byte(dtype), np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + size].view(_CARRIED_AS.get(dtype.name, dtype))


def _untouched(memory: np.ndarray) -> bool:
    """Whether nothing was ever written there."""
    return bool((memory.view(np.uint8) == _untouched_byte(memory.dtype)).all())


def _untouched_byte(dtype: np.dtype) -> int:
    return _UNTOUCHED_FLOAT if dtype.kind == "f" else _UNTOUCHED


def _load(path: Path, mode: str) -> CompiledModel:
    if mode == "gpu":
        try:
            return _compile(path, HardwareAccelerator.GPU)
        except RuntimeError:  # operators that the GPU lacks; `describe` tells
            return _compile(path, HardwareAccelerator.GPU | HardwareAccelerator.CPU)
    return _compile(path, HardwareAccelerator.CPU, _FORCE_FP16 if mode == "fp16" else None)


def _compile(
    path: Path, accelerators: HardwareAccelerator, xnnpack_flags: int | None = None
) -> CompiledModel:
    cpu = CpuOptions(num_threads=0, xnnpack_flags=xnnpack_flags)
    options = Options(hardware_accelerators=accelerators, cpu_options=cpu)
    return CompiledModel.from_file(str(path), options=options)


def _read(buffer: TensorBuffer, shape: list[int], dtype: np.dtype) -> np.ndarray:
    count = int(np.prod(shape))
    carried = _CARRIED_AS.get(dtype.name)
    if carried is None:
        return buffer.read(count, dtype).reshape(shape)
    words = buffer.read(count * dtype.itemsize // carried.itemsize, carried)
    return words.view(dtype).reshape(shape)


def _on_float16_grid(values: np.ndarray) -> bool:
    finite = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        return bool(np.array_equal(finite.astype(np.float16).astype(np.float32), finite))

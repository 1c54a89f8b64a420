"""Keras on JAX: steps are pure functions of all values, and return new ones."""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental.sparse import JAXSparse
from keras import ops

from tfmp.shared.backend.interface import (
    Backend,
    DeviceFacts,
    Look,
    OnTensors,
    Result,
    Tensor,
    TensorTree,
    Variable,
)
from tfmp.shared.packages import user_line

# Primitives whose equation is a call of one jaxpr with the same arguments.
_WRAPPERS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call")


class Jax(Backend):
    """Keras on JAX."""

    name, title = "jax", "JAX"
    is_stateless = traces_loops = always_jits = True

    def branch(
        self, predicate: Tensor, if_true: Callable[[], Result], if_false: Callable[[], Result]
    ) -> Result:
        # Outside `jax.jit`, `lax.cond` would compile both branches anew on every step.
        if not isinstance(predicate, jax.core.Tracer):
            return if_true() if predicate else if_false()
        return ops.cond(predicate, if_true, if_false)

    def loops_unrolled(self) -> AbstractContextManager[object]:
        return jax.disable_jit()

    def is_concrete(self, tensor: Tensor) -> bool:
        return not isinstance(tensor, jax.core.Tracer)

    def is_dense(self, value: object) -> bool:
        return isinstance(value, jax.Array)

    def trace(
        self, function: Callable[..., object], likes: Sequence[tuple[tuple[int, ...], str]]
    ) -> None:
        with jax.disable_jit(False):
            jax.eval_shape(function, *(jax.ShapeDtypeStruct(*like) for like in likes))

    def trace_step(self, model: Any, batch: TensorTree) -> None:
        optimizer, metrics = model.optimizer.variables, model.metrics_variables
        kinds = (model.trainable_variables, model.non_trainable_variables, optimizer, metrics)
        state = tuple([variable.value for variable in kind] for kind in kinds)
        held = [(variable, variable.value) for kind in kinds for variable in kind]
        try:
            for variable, _ in held:
                variable._value = None  # as in `fit`: a value would be a constant of the trace
            jax.eval_shape(model.train_step, state, batch)
        finally:
            for variable, value in held:
                variable._value = value

    def compiled(self, function: Callable[..., TensorTree], jit: bool) -> Callable[..., TensorTree]:
        return jax.jit(function)

    def as_written(self, function: Callable[..., TensorTree]) -> Callable[..., TensorTree]:
        return jax.jit(function, compiler_options={**_quick(), "xla_allow_excess_precision": False})

    def program(self, function: Callable[..., TensorTree], arguments: TensorTree) -> bytes:
        lowered = jax.jit(function).lower(*arguments).compiler_ir("hlo")
        return lowered.as_serialized_hlo_module_proto()

    def pulled_back(
        self, function: OnTensors, sources: list[Tensor], arrive: OnTensors
    ) -> tuple[list[Tensor], list[Tensor]]:
        results, pull = jax.vjp(function, sources)
        return results, pull(arrive(results))[0]

    def stored(self, tensor: Tensor) -> Tensor:
        return tensor.data if isinstance(tensor, JAXSparse) else tensor

    def stored_row(self, tensor: Tensor, place: int) -> int:
        return int(tensor.indices[place, 0]) if isinstance(tensor, JAXSparse) else place

    def operations(
        self, function: Callable[..., TensorTree], arguments: tuple[TensorTree, ...], look: Look
    ) -> None:
        closed = jax.make_jaxpr(function)(*arguments)
        _interpret(closed.jaxpr, closed.consts, jax.tree.leaves(arguments), look)

    def from_numpy(self, array: np.ndarray) -> Tensor:
        return jax.device_put(array)

    def fetch(self, variables: Sequence[Variable]) -> list[np.ndarray]:
        return jax.device_get([variable.value for variable in variables])

    def devices(self) -> list[DeviceFacts]:
        return [
            facts_of(one.platform, one.device_kind, getattr(one, "compute_capability", None))
            for one in jax.local_devices()
        ]

    def tf32(self) -> bool:
        precision = jax.config.jax_default_matmul_precision
        return precision not in ("float32", "highest", "F32_F32_F32")

    def tf32_switched(self, on: bool) -> AbstractContextManager[object]:
        # It holds for functions that are traced in the block, and that were traced in an equal one.
        return jax.default_matmul_precision("tensorfloat32" if on else "float32")

    def synchronize(self, values: TensorTree = None) -> None:
        # JAX cannot wait for a device.
        jax.block_until_ready(values)
        jax.effects_barrier()

    def meter(self) -> tuple[Callable[[], int], Callable[[], int]] | None:
        device = jax.local_devices()[0]
        if device.platform == "cpu" or not device.memory_stats():
            return None
        before = device.memory_stats().get("peak_bytes_in_use", 0)

        def peak() -> int:
            stats = device.memory_stats()
            highest = stats.get("peak_bytes_in_use", 0)
            return highest if highest > before else stats["bytes_in_use"]

        return lambda: device.memory_stats()["bytes_in_use"], peak

    def pools_memory(self) -> bool:
        # JAX cannot reset its peak: below an earlier one nothing shows.
        return jax.default_backend() != "cpu"

    def step_bytes(
        self, step: Callable[..., TensorTree], arguments: Sequence[TensorTree]
    ) -> int | None:
        # What `fit` has compiled comes from JAX's cache.
        found = jax.jit(step, donate_argnums=0).lower(*arguments).compile().memory_analysis()
        sizes = found.argument_size_in_bytes, found.output_size_in_bytes, found.temp_size_in_bytes
        return sum(sizes) - found.alias_size_in_bytes

    def memory_left(self) -> int | None:
        stats = jax.local_devices()[0].memory_stats() or {}
        if "bytes_limit" not in stats:
            return None
        return max(0, int(stats["bytes_limit"]) - int(stats.get("bytes_in_use", 0)))

    def has_64_bits(self) -> bool:
        return bool(jax.config.jax_enable_x64)

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "JAX_ENABLE_X64": str(int(self.has_64_bits()))}

    def profiler(self, folder: Path) -> AbstractContextManager[object]:
        return jax.profiler.trace(str(folder))


@cache
def _quick() -> dict[str, int]:
    """Options that let XLA compile in a fifth of the time, those that this version has."""
    found: dict[str, int] = {}
    for one in ({"xla_backend_optimization_level": 0}, {"xla_cpu_use_fusion_emitters": False}):
        with suppress(RuntimeError):
            jax.jit(abs).lower(0).compile(one)
            found |= one
    return found


def facts_of(platform: str, device_kind: str, compute_capability: str | None) -> DeviceFacts:
    """Reads the attributes of a `jax.Device`: platform "cpu", "gpu" or "tpu", and the rest."""
    kinds = {"cpu": "cpu", "gpu": "gpu", "cuda": "gpu", "rocm": "gpu", "tpu": "tpu"}
    known = re.fullmatch(r"(\d+)\.(\d+)", compute_capability or "")
    capability = (int(known[1]), int(known[2])) if known else None
    return kinds.get(platform, "other"), device_kind, capability


def _interpret(jaxpr: Any, consts: Sequence[Tensor], args: Sequence[Tensor], look: Look) -> None:
    """Interprets a jaxpr equation by equation; enters the last one if it wraps another jaxpr."""
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))

    def read(atom: Any) -> Tensor:
        return atom.val if hasattr(atom, "val") else values[atom]

    for equation in jaxpr.eqns:
        inputs = [read(atom) for atom in equation.invars]
        bound = equation.primitive.get_bind_params(equation.params)
        # Earlier versions of JAX give a pair.
        functions, params = bound if isinstance(bound, tuple) else ((), bound)
        results = equation.primitive.bind(*functions, *inputs, **params)
        results = results if equation.primitive.multiple_results else [results]
        if look(equation.primitive.name, inputs, results, partial(_where, equation)):
            wrapped = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
            if equation.primitive.name in _WRAPPERS and hasattr(wrapped, "consts"):
                _interpret(wrapped.jaxpr, wrapped.consts, inputs, look)
            return
        values.update(zip(equation.outvars, results, strict=True))


def _where(equation: Any) -> str | None:
    traceback_of = equation.source_info.traceback
    frames = traceback_of.frames if traceback_of is not None else ()
    return user_line((frame.file_name, frame.line_num) for frame in frames) or None

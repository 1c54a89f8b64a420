"""Keras on PyTorch: eager steps, whose branches are Python's."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import torch
from keras import ops, tree
from torch.utils._python_dispatch import TorchDispatchMode

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


class Torch(Backend):
    """Keras on PyTorch."""

    name, title = "torch", "PyTorch"
    picks_in_python = True
    has_xla = False
    threads_share_randomness = True

    def branch(
        self, predicate: Tensor, if_true: Callable[[], Result], if_false: Callable[[], Result]
    ) -> Result:
        return if_true() if predicate else if_false()

    def decided(self, *flags: Tensor) -> tuple[Tensor, ...]:
        # One wait for the device, as in torch.amp.GradScaler.step.
        return tuple(torch.stack([ops.cast(flag, "bool") for flag in flags]).tolist())

    def is_concrete(self, tensor: Tensor) -> bool:
        return not getattr(tensor, "is_meta", True)

    def is_dense(self, value: object) -> bool:
        return isinstance(value, torch.Tensor) and not value.is_sparse

    def trace(
        self, function: Callable[..., object], likes: Sequence[tuple[tuple[int, ...], str]]
    ) -> None:
        with torch.no_grad():
            function(*(ops.ones(*like) for like in likes))

    def compiled(self, function: Callable[..., TensorTree], jit: bool) -> Callable[..., TensorTree]:
        return function

    # --- gradients ---

    def pulled_back(
        self, function: OnTensors, sources: list[Tensor], arrive: OnTensors
    ) -> tuple[list[Tensor], list[Tensor]]:
        leaves = _leaves(sources)
        with torch.enable_grad():
            results = function(leaves)
        pairs = [
            pair for pair in zip(results, arrive(results), strict=True) if pair[0].requires_grad
        ]
        found: Sequence[Tensor | None] = [None] * len(leaves)
        if pairs:
            reached, arriving = zip(*pairs, strict=True)
            found = torch.autograd.grad(reached, leaves, arriving, allow_unused=True)
        slopes = [
            torch.zeros_like(leaf) if slope is None else slope
            for leaf, slope in zip(leaves, found, strict=True)
        ]
        return [one.detach() for one in results], slopes

    def differentiated(self, step: Callable[[], object]) -> list[Tensor]:
        taken, losses = torch.Tensor.backward, []

        def backward(loss: Tensor, *args: Any, **kwargs: Any) -> None:
            losses.append(loss)

        torch.Tensor.backward = backward
        try:
            step()
        finally:
            torch.Tensor.backward = taken
        return losses

    def without_gradients(self) -> AbstractContextManager[object]:
        return torch.no_grad()

    def all_finite(self, values: Sequence[Tensor]) -> Tensor | None:
        if not values:
            return None
        largest = torch._foreach_norm(list(values), float("inf"))
        return torch.stack(largest).isfinite().all()

    def divided(self, gradients: Sequence[Tensor], by: Tensor) -> list[Tensor]:
        if gradients and all(one.dtype == torch.float32 and not one.is_sparse for one in gradients):
            return torch._foreach_div(list(gradients), by)
        return super().divided(gradients, by)

    def with_rows(self, gradient: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
        if not gradient.is_sparse:
            return change(gradient)
        whole = gradient.coalesce()
        return torch.sparse_coo_tensor(whole.indices(), change(whole.values()), whole.shape)

    def stored(self, tensor: Tensor) -> Tensor:
        is_sparse = isinstance(tensor, torch.Tensor) and tensor.is_sparse
        return tensor.coalesce().values() if is_sparse else tensor

    def stored_row(self, tensor: Tensor, place: int) -> int:
        return int(tensor.coalesce().indices()[0, place]) if tensor.is_sparse else place

    def operations(
        self, function: Callable[..., TensorTree], arguments: tuple[TensorTree, ...], look: Look
    ) -> None:
        ended = False

        def show(operation: Any, args: tuple, kwargs: Mapping[str, Any], made: TensorTree) -> None:
            nonlocal ended
            if not ended:
                # Keras computes products of 16 bits in float32 on a CPU, and rounds the result.
                name = operation.overloadpacket.__name__.replace("_to_copy", "cast")
                ended = look(
                    name, tree.flatten((args, kwargs)), tree.flatten(made), self.user_frame
                )

        with _Shown(show), self.without_gradients():
            function(*arguments)

    # --- variables ---

    def read(self, variable: Variable) -> Tensor:
        # A detached tensor would show what is assigned later.
        return variable.value.detach().clone()

    def _initialize(self, variable: Variable, value: Tensor) -> None:
        # The parameter stays the one that modules and optimizers of PyTorch hold.
        variable._value.data = value.detach()
        variable._value.grad = None

    # --- fit ---

    def feed(self, batches: Sequence[TensorTree], like: Any = None) -> Any:
        return list(batches)

    def fed(self, given: Any, count: int) -> list[TensorTree]:
        return list(given)

    def random_state(self) -> Any:
        cards = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        return torch.get_rng_state(), cards

    def set_random_state(self, state: Any) -> None:
        processor, cards = state
        torch.set_rng_state(processor)
        if cards:
            torch.cuda.set_rng_state_all(cards)

    # --- devices ---

    def devices(self) -> list[DeviceFacts]:
        cards = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
        found: list[DeviceFacts] = [("cpu", "CPU", None)]
        for card in cards:
            capability = None if torch.version.hip else torch.cuda.get_device_capability(card)
            found.append(("gpu", torch.cuda.get_device_name(card), capability))
        return found

    def tf32(self) -> bool:
        return torch.get_float32_matmul_precision() != "highest"

    @contextmanager
    def tf32_switched(self, on: bool) -> Iterator[None]:
        before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
        torch.set_float32_matmul_precision("high" if on else "highest")
        torch.backends.cudnn.allow_tf32 = on
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before[0])
            torch.backends.cudnn.allow_tf32 = before[1]

    def numerics(self) -> dict[str, bool]:
        return {
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "tf32": self.tf32(),
            "cudnn_tf32": torch.backends.cudnn.allow_tf32,
        }

    def begin(self, numerics: Mapping[str, bool], memory_limit: int | None) -> None:
        torch.use_deterministic_algorithms(numerics["deterministic"])
        torch.set_float32_matmul_precision("high" if numerics["tf32"] else "highest")
        torch.backends.cudnn.allow_tf32 = numerics["cudnn_tf32"]
        if torch.cuda.is_available() and memory_limit is not None:
            whole = torch.cuda.get_device_properties(0).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, memory_limit / whole))

    def synchronize(self, values: TensorTree = None) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def meter(self) -> tuple[Callable[[], int], Callable[[], int]] | None:
        if not torch.cuda.is_available():
            return None
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated, torch.cuda.max_memory_allocated

    def memory_left(self) -> int | None:
        if not torch.cuda.is_available():
            return None
        free, _ = torch.cuda.mem_get_info()
        kept = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        return int(free) + int(kept)

    def memory_growth(self) -> bool | None:
        return True if torch.cuda.is_available() else None

    def built_for(self) -> Mapping[str, Any]:
        cudnn = torch.backends.cudnn.version() or 0
        # 8907 is 8.9.7, 91002 is 9.10.2.
        major = cudnn // (10_000 if cudnn >= 90_000 else 1000)
        return {
            "cuda_version": torch.version.cuda or "",
            "cudnn_version": str(major) if cudnn else "",
            "cuda_compute_capabilities": torch.cuda.get_arch_list(),
        }

    def profiler(self, folder: Path) -> AbstractContextManager[object]:
        return torch.profiler.profile(
            on_trace_ready=torch.profiler.tensorboard_trace_handler(str(folder))
        )


def _leaves(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [tensor.detach().requires_grad_(tensor.is_floating_point()) for tensor in tensors]


class _Shown(TorchDispatchMode):
    """Shows every operation that runs in its block: itself, its arguments and its results."""

    def __init__(self, show: Callable[[Any, tuple, Mapping[str, Any], TensorTree], None]) -> None:
        super().__init__()
        self._show = show

    def __torch_dispatch__(
        self,
        function: Any,
        types: object,
        args: tuple[TensorTree, ...] = (),
        kwargs: Mapping[str, TensorTree] | None = None,
    ) -> TensorTree:
        results = function(*args, **(kwargs or {}))
        self._show(function, args, dict(kwargs or {}), results)
        return results

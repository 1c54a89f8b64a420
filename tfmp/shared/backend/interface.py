"""The interface of a Keras backend, with what holds for a plain one: eager, in place, on the host.

A backend overrides what it does otherwise. Nothing outside this folder asks for a backend's name to
choose what it does.
"""

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import dropwhile, islice
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from tfmp.shared.packages import is_in, user_line

# A `tf.Tensor`, `jax.Array` or `torch.Tensor`, eager or traced. The libraries share no type that a
# checker knows.
Tensor: TypeAlias = Any

# A tensor, or lists, tuples and dicts of tensors, as models take and return them. Before they reach
# the backend, NumPy arrays may stand in their place.
TensorTree: TypeAlias = Any

# A keras.Variable or keras.optimizers.Optimizer: this module does without importing Keras.
Variable: TypeAlias = Any
Optimizer: TypeAlias = Any

Function = TypeVar("Function", bound=Callable[..., object])
Result = TypeVar("Result")

# Takes tensors, gives tensors.
OnTensors: TypeAlias = Callable[[list[Tensor]], list[Tensor]]

# Gets an operation's name, its inputs, its outputs and a function that finds the line of the user's
# code; True ends the search.
Look: TypeAlias = Callable[[str, TensorTree, TensorTree, Callable[[], str | None]], bool]

# The kind of a device ("cpu", "gpu", "tpu" or "other"), its name, and CUDA's compute capability.
DeviceFacts: TypeAlias = tuple[str, str, tuple[int, int] | None]


class Backend(ABC):
    """What one backend does in its own way.

    Attributes:
        name: as `keras.backend.backend()` says it.
        title: as people write it.
        is_stateless: `fit` takes the values out of the variables, and its steps return new ones.
        picks_in_python: `decided` gives Python's booleans, and `branch` runs one function.
        rewrites_graphs: it can put FP16 casts into graphs by itself.
        traces_loops: eager layers see tensors without values inside their loops.
        has_xla: XLA can compile its functions.
        always_jits: every step is a program of XLA.
        threads_share_randomness: threads draw from one generator, where a layer has no seed.
        softmax_is_narrow: a softmax inside a layer of 16 bits computes in 16 bits.
    """

    name: str
    title: str
    is_stateless = False
    picks_in_python = False
    rewrites_graphs = False
    traces_loops = always_jits = False
    has_xla = True
    softmax_is_narrow = False
    threads_share_randomness = False

    # --- tracing and branches ---

    def without_autograph(self, function: Function) -> Function:
        """Keeps a user's `tf.function` from rewriting this code: it is written for tracing."""
        return function

    def rarely_run(self, function: Function) -> Function:
        """Makes a function cheap where it is not called: in a branch that is mostly untaken."""
        return function

    def branch(
        self, predicate: Tensor, if_true: Callable[[], Result], if_false: Callable[[], Result]
    ) -> Result:
        """Like `ops.cond`, but picks in Python where the predicate is known."""
        from keras import ops

        return ops.cond(predicate, if_true, if_false)

    def decided(self, *flags: Tensor) -> tuple[Tensor, ...]:
        """Boolean scalars that branches are about to ask for.

        A backend whose branches are Python's fetches them all from the device at once.
        """
        return flags

    def loops_unrolled(self) -> AbstractContextManager[object]:
        """A block in which loops run step by step, on tensors that have values."""
        return nullcontext()

    @abstractmethod
    def is_concrete(self, tensor: Tensor) -> bool:
        """Whether a tensor has values; inside a function that is being traced it has not."""

    @abstractmethod
    def is_dense(self, value: object) -> bool:
        """Whether a value is a dense tensor of this backend."""

    @abstractmethod
    def trace(
        self, function: Callable[..., object], likes: Sequence[tuple[tuple[int, ...], str]]
    ) -> None:
        """Runs a function of tensors as a training step would, for what its Python code notes.

        Args:
            function: called with a tensor for each of `likes`; they need not have values.
            likes: shapes and dtypes.
        """

    def trace_step(self, model: Any, batch: TensorTree) -> None:
        """Traces a model's `train_step` on a batch without computing it, where steps are traced."""
        return

    @abstractmethod
    def compiled(self, function: Callable[..., TensorTree], jit: bool) -> Callable[..., TensorTree]:
        """The function as one program, where the backend makes such; of XLA if `jit` says so."""

    def as_written(self, function: Callable[..., TensorTree]) -> Callable[..., TensorTree]:
        """The function as one program, where every operation is one; each result is rounded."""
        return function

    def program(self, function: Callable[..., TensorTree], arguments: TensorTree) -> bytes:
        """A function's `HloModuleProto`, serialized, before XLA optimizes it.

        Args:
            function: a function on tensors, which may read and change variables on TensorFlow.
            arguments: tensors that it could be called with.

        Raises:
            NotImplementedError: the backend has no XLA.
        """
        raise NotImplementedError(f"{self.title} shows no XLA program")

    # --- gradients ---

    def gradients(
        self, objective: Callable[..., Tensor], arguments: tuple[TensorTree, ...]
    ) -> tuple[Tensor, tuple[TensorTree, ...]]:
        """A scalar, and its gradients for all tensors in the arguments.

        Args:
            objective: takes the arguments, and gives a scalar.
            arguments: nested structures of floating-point tensors.
        """
        from keras import ops, tree

        def function(sources: list[Tensor]) -> list[Tensor]:
            return [objective(*tree.pack_sequence_as(arguments, sources))]

        sources = tree.flatten(arguments)
        (total,), slopes = self.pulled_back(function, sources, lambda r: [ops.ones_like(r[0])])
        return total, tree.pack_sequence_as(arguments, slopes)

    @abstractmethod
    def pulled_back(
        self, function: OnTensors, sources: list[Tensor], arrive: OnTensors
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Results of a function, and what gradients that arrive at them are at its sources.

        Args:
            function: takes the sources.
            sources: floating-point tensors.
            arrive: takes the results; gives the gradient that arrives at each.

        Returns:
            The results, and a gradient for each source: zeros where none reaches it.
        """

    def differentiated(self, step: Callable[[], object]) -> list[Tensor]:
        """The losses that a training step takes the gradients of; it gets zeros, or none.

        Empty where the backend cannot see them.
        """
        return []

    def without_gradients(self) -> AbstractContextManager[object]:
        """A block whose operations are not noted for gradients, where a backend notes them all."""
        return nullcontext()

    def from_numpy(self, array: np.ndarray) -> Tensor:
        """An array as a tensor, or as it is where it becomes one without compiling anything."""
        return array

    def all_finite(self, values: Sequence[Tensor]) -> Tensor | None:
        """Whether all values are finite, where that is cheaper than of each; otherwise None."""
        return None

    def divided(self, gradients: Sequence[Tensor], by: Tensor) -> list[Tensor]:
        """Gradients divided by a float32 scalar, at least in float32; sparse ones stay sparse."""
        from keras import ops

        return [self.with_rows(one, lambda values: ops.divide(values, by)) for one in gradients]

    def with_rows(self, gradient: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
        """The gradient with its values changed; a sparse one stays sparse."""
        return change(gradient)

    def stored(self, tensor: Tensor) -> Tensor:
        """The values that a tensor stores: of a sparse one the non-zero ones, or their rows."""
        return tensor

    def stored_row(self, tensor: Tensor, place: int) -> int:
        """The row of a tensor that one of its stored values, or rows of them, belongs to."""
        return place

    @abstractmethod
    def operations(
        self, function: Callable[..., TensorTree], arguments: tuple[TensorTree, ...], look: Look
    ) -> None:
        """Runs a function operation by operation, and shows each to `look` until this says True.

        Where the last one is a call of a whole function, that function's operations follow.
        """

    @staticmethod
    def user_frame() -> str | None:
        """ "file.py:12" of the user's code that is running; None inside a library."""
        stack = reversed(traceback.extract_stack())
        frames = ((frame.filename, frame.lineno) for frame in stack)
        return user_line(dropwhile(lambda frame: is_in("tfmp", frame[0]), frames)) or None

    # --- variables ---

    def read(self, variable: Variable) -> Tensor:
        """The variable's value now, which later assignments leave alone."""
        from keras import ops

        return ops.stop_gradient(variable)

    def fetch(self, variables: Sequence[Variable]) -> list[np.ndarray]:
        """The values of variables on the host, in one transfer."""
        from keras import ops

        # float64 holds every float32 scale and every count below 2**53.
        flat = [ops.cast(ops.reshape(one.value, (-1,)), "float64") for one in variables]
        packed = ops.convert_to_numpy(ops.concatenate(flat))
        parts = np.split(packed, np.cumsum([len(one) for one in flat[:-1]]))
        return [part.reshape(v.shape) for part, v in zip(parts, variables, strict=True)]

    def give_dtype(self, variable: Variable, dtype: str) -> None:
        """Rounds a variable's values to a dtype that it has from now on, in place.

        Layers, optimizers and files know it as an object. Functions that were traced with it have
        to be traced anew.
        """
        from keras import ops

        value = ops.cast(ops.convert_to_tensor(variable.value), dtype)
        variable._dtype = dtype
        self._initialize(variable, value)

    def _initialize(self, variable: Variable, value: Tensor) -> None:
        variable._initialize(value)

    def mirrored(self, variables: Sequence[Variable]) -> bool:
        """Whether variables have copies on several devices."""
        return False

    def creation_scope(self, optimizer: Optimizer) -> AbstractContextManager[object]:
        """The block to create an optimizer's variables in: where its own are."""
        return nullcontext()

    # --- what one trace may assign ---

    def maybe_assigned(self, variables: Sequence[Variable]) -> list[Variable]:
        """Those of the variables that the step being traced may assign values to."""
        return list(variables)

    # --- replicas ---

    def replica_index(self) -> int:
        """A number of the replica whose code runs; 0 where one trace is for all."""
        return 0

    def replicas(self) -> int:
        """The replicas whose gradients are summed before they are applied.

        Raises:
            ValueError: no replica runs here, but what joins them.
        """
        return 1

    def with_known_shapes(
        self, gradients: list[Tensor | None], variables: Sequence[Variable]
    ) -> list[Tensor | None]:
        """Gradients whose shapes are known, which measurements of them need."""
        return gradients

    def on_replicas(
        self,
        finite: Tensor,
        gradients: list[Tensor | None],
        update: Callable[[list[Tensor | None], Tensor], object],
        step: Callable[[Tensor, Callable[[Tensor], object], list[Tensor | None]], None],
    ) -> None:
        """Applies a step where replicas have agreed whether all gradients are finite.

        Args:
            finite: flags of this replica's gradients.
            gradients: of this replica.
            update: applies gradients of a scale; on every replica.
            step: takes the flags of all replicas, a function that applies the step at a scale, and
                the gradients; decides whether it is applied.
        """
        step(finite, lambda scale: update(gradients, scale), gradients)

    # --- fit ---

    def feed(self, batches: Sequence[TensorTree], like: Any = None) -> Any:
        """Batches in the form that `model.train_function` takes them.

        Args:
            batches: one for each step of an execution.
            like: what `fit` gave that function before.
        """
        return iter(batches)

    def fed(self, given: Any, count: int) -> list[TensorTree]:
        """The batches that `fit` gave `model.train_function` for up to `count` steps."""
        return list(islice(given, count))

    def can_be_fed_again(self, given: Any) -> bool:
        """Whether batches that were taken from what `fit` gave can be handed on unchanged."""
        return True

    def random_state(self) -> Any:
        """The state of the process's random generators that are not Keras's."""
        return None

    def set_random_state(self, state: Any) -> None:
        """Goes on drawing from a state that `random_state` gave."""
        return

    # --- devices ---

    @abstractmethod
    def devices(self) -> list[DeviceFacts]:
        """The devices that the process may use."""

    @abstractmethod
    def tf32(self) -> bool:
        """Whether float32 products may run as TF32."""

    @abstractmethod
    def tf32_switched(self, on: bool) -> AbstractContextManager[object]:
        """A block in which float32 products may run as TF32, or may not."""

    @abstractmethod
    def synchronize(self, values: TensorTree = None) -> None:
        """Waits until the devices have done their work.

        Args:
            values: the last results of that work, for backends that wait for values only.
        """

    @abstractmethod
    def meter(self) -> tuple[Callable[[], int], Callable[[], int]] | None:
        """Functions for the accelerator's bytes in use now, and at their highest since this call.

        None without an accelerator that counts them.
        """

    @abstractmethod
    def memory_left(self) -> int | None:
        """Bytes that the allocator of the first card may still hand out; None if it cannot say."""

    def step_bytes(
        self, step: Callable[..., TensorTree], arguments: Sequence[TensorTree]
    ) -> int | None:
        """Bytes that a step needs with its arguments, which it may overwrite.

        None where only a meter can say.
        """
        return None

    def pools_memory(self) -> bool:
        """Whether the allocator keeps freed memory or its peak, so that only growth shows."""
        return False

    def memory_growth(self) -> bool | None:
        """Whether memory of the card is taken as it is needed; None where nothing decides that."""
        return None

    def jit_everywhere(self) -> bool:
        """Whether every graph is compiled by XLA, without being asked for."""
        return False

    def has_64_bits(self) -> bool:
        """Whether float64 stays float64."""
        return True

    def numerics(self) -> dict[str, bool]:
        """Settings of this process, beside `environment`, that decide what numbers it computes."""
        return {}

    def begin(self, numerics: Mapping[str, bool], memory_limit: int | None) -> None:
        """Takes over settings in a new process that has not used its devices yet.

        Args:
            numerics: of the process that began it.
            memory_limit: bytes of the card that it may use; None for no limit.
        """
        return

    def environment(self) -> dict[str, str]:
        """Variables with which another process computes alike."""
        return {"KERAS_BACKEND": self.name}

    @abstractmethod
    def profiler(self, folder: Path) -> AbstractContextManager[object]:
        """A block that leaves the trace of the backend's profiler in a folder."""

    def built_for(self) -> Mapping[str, Any]:
        """What TensorFlow, or the backend, says of its build; nothing where it is not installed.

        With the names of `tf.sysconfig.get_build_info`: "cuda_version", "cudnn_version" and
        "cuda_compute_capabilities".
        """
        try:
            import tensorflow as tf
        except ImportError:
            return {}
        return tf.sysconfig.get_build_info()

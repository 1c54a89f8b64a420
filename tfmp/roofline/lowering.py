"""The work of functions and layers, from XLA programs that both backends show uncompiled."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import keras

from tfmp.roofline.counts import count_work
from tfmp.roofline.work import Work
from tfmp.shared.backend import Tensor, TensorTree


def program_text(function: Callable[..., TensorTree], arguments: Sequence[TensorTree]) -> str:
    """The HLO text of a function before XLA optimizes it.

    Args:
        function: a function on tensors, which may read and change variables on TensorFlow.
        arguments: tensors that it could be called with.
    """
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function).lower(*arguments).as_text(dialect="hlo")
    import tensorflow as tf

    # XLA's program shows the work of a model that runs without XLA, too.
    compiled = tf.function(function, jit_compile=True, autograph=False)
    return str(compiled.experimental_get_compiler_ir(*arguments)(stage="hlo"))


@contextmanager
def without_cudnn(layer: keras.layers.Layer) -> Iterator[None]:
    """Has recurrent layers compute with ordinary operations: XLA cannot show cuDNN's work."""
    layers = [part for part in layer._flatten_layers() if hasattr(part, "use_cudnn")]
    before = [part.use_cudnn for part in layers]
    try:
        for part in layers:
            part.use_cudnn = False
        yield
    finally:
        for part, value in zip(layers, before, strict=True):
            part.use_cudnn = value


def layer_work(
    forward: Callable[[Sequence[Tensor], Sequence[Tensor]], Sequence[Tensor]],
    weights: Sequence[Tensor],
    inputs: Sequence[Tensor],
) -> tuple[Work, Work]:
    """The work of a layer's forward pass, and of its backward pass.

    Args:
        forward: takes weights and inputs, returns the floating-point outputs.
        weights: the trainable weights.
        inputs: the floating-point inputs.
    """
    weights, inputs = list(weights), list(inputs)
    both = _jax_both if keras.backend.backend() == "jax" else _tensorflow_both
    once = count_work(program_text(forward, (weights, inputs)))
    # The gradient of the outputs exists only after them.
    text, outputs = both(forward, weights, inputs)
    return once, count_work(text, first_results=outputs) - once


def _jax_both(
    forward: Callable[..., TensorTree], weights: TensorTree, inputs: TensorTree
) -> tuple[str, int]:
    import jax

    def both(weights: TensorTree, inputs: TensorTree, seeds: TensorTree) -> TensorTree:
        outputs, pull_back = jax.vjp(forward, weights, inputs)
        return outputs, pull_back(seeds)

    shapes = jax.eval_shape(forward, weights, inputs)
    seeds = [jax.numpy.ones(shape.shape, shape.dtype) for shape in shapes]
    return program_text(both, (weights, inputs, seeds)), len(seeds)


def _tensorflow_both(
    forward: Callable[..., TensorTree], weights: TensorTree, inputs: TensorTree
) -> tuple[str, int]:
    import tensorflow as tf

    def both(weights: TensorTree, inputs: TensorTree, seeds: TensorTree) -> TensorTree:
        with tf.GradientTape() as tape:
            tape.watch([*weights, *inputs])
            outputs = forward(weights, inputs)
        gradients = tape.gradient(outputs, (weights, inputs), output_gradients=seeds)
        return outputs, gradients

    traced = tf.function(forward, autograph=False).get_concrete_function(weights, inputs)
    seeds = [tf.ones(output.shape, output.dtype) for output in traced.outputs]
    return program_text(both, (weights, inputs, seeds)), len(seeds)

"""graph_rewrite: TensorFlow's own mixed precision, for graphs that are not made of Keras layers.

Grappler, TensorFlow's graph optimizer, can give a traced function's operations 16-bit types and put
casts around them. TensorFlow's log has a line for each graph: "Converted 4/11 nodes to bfloat16".
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tfmp.shared.arguments import check_choice
from tfmp.shared.framework_start import tensorflow_uses_onednn

# TensorFlow's options by the type that they introduce: FP16 on GPUs, bfloat16 on CPUs with oneDNN.
_OPTIONS = {
    "float16": "auto_mixed_precision",
    "bfloat16": "auto_mixed_precision_onednn_bfloat16",
}

_WITHOUT_ONEDNN = (
    ", but TensorFlow does without oneDNN on this processor, so it has no bfloat16 here. Set "
    "TF_ENABLE_ONEDNN_OPTS=1 before TensorFlow starts."
)


@contextmanager
def graph_rewrite(dtype: str = "float16") -> Iterator[str]:
    """Switches TensorFlow's automatic mixed precision on for the graphs that run in the block.

        with tfmp.graph_rewrite() as rewrite:
            loss = train_step(x, y)                    # a tf.function
        print(rewrite)

    The rewrite applies to functions that are called in the block, wherever they were traced;
    outside the block they run as they were written. The option belongs to the process, but a thread
    that has called functions before keeps its earlier setting. Gradients need a loss scale, as
    everywhere in FP16: wrap the optimizer in `tfmp.LossScaleOptimizer`.

    Args:
        dtype: "float16" (GPUs), "bfloat16" (CPUs, through oneDNN) or "off".

    Yields:
        A line about the rewrite that applies in the block.

    Raises:
        ValueError: `dtype` is another value.
    """
    import tensorflow as tf

    options = tf.config.optimizer
    before = options.get_experimental_options()
    switch_graph_rewrite(dtype)
    try:
        works = dtype != "bfloat16" or tensorflow_uses_onednn()
        yield f"graph rewrite {dtype}" + ("" if works else _WITHOUT_ONEDNN)
    finally:
        # An option that was never set cannot be unset; it meant the same as off.
        restored = {name: before.get(name, False) for name in _OPTIONS.values()}
        options.set_experimental_options({**before, **restored})


def switch_graph_rewrite(dtype: str) -> None:
    """Switches the rewrite on for the whole process: to "float16", to "bfloat16" or "off".

    Raises:
        ValueError: `dtype` is another value.
    """
    import tensorflow as tf

    hint = "'float16' is for GPUs, 'bfloat16' for CPUs."
    check_choice("graph_rewrite", dtype, (*_OPTIONS, "off"), hint)
    # Both are set, so that an option that other code switched on is off unless it is asked for.
    tf.config.optimizer.set_experimental_options(
        {name: dtype == given for given, name in _OPTIONS.items()}
    )

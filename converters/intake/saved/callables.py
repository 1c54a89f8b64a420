"""The functions of a SavedModel that has no signatures."""

from collections.abc import Mapping
from typing import Any

from tfmp.converters.shared.frameworks import TfFunction
from tfmp.converters.shared.tensors import TensorSpec


def signatures_of(functions: Mapping[str, TfFunction]) -> str:
    """Each function with its inputs, for a message."""
    texts = []
    for name, function in functions.items():
        specs = [TensorSpec("", tuple(one.shape), one.dtype.name) for one in tensors_of(function)]
        texts.append(f"{name!r} ({', '.join(f'{spec.dtype}{spec.sizes}' for spec in specs)})")
    return ", ".join(texts)


def callables_of(loaded: Any) -> dict[str, TfFunction]:
    """The functions that a loaded SavedModel offers besides signatures, by name.

    They take tensors and nothing else; of several with one name, it is the one for inference.
    Converters from other frameworks save a concrete function itself, which then is the whole model.
    """
    if hasattr(loaded, "structured_input_signature"):
        return {"__call__": loaded} if _fitness(loaded) else {}
    found: dict[str, TfFunction] = {}
    for name in sorted({*vars(loaded), *dir(type(loaded))}):
        if name.startswith("_") and name != "__call__":
            continue
        member = getattr(loaded, name, None)
        choices = getattr(member, "concrete_functions", None)
        best = max(choices or (), key=_fitness, default=None)
        if best is not None and _fitness(best) > 0:
            found[name] = best
    return found


def _fitness(function: TfFunction) -> int:
    """0 for a function without tensors of known ranks; more for one that does not train."""
    import tensorflow as tf

    leaves = tf.nest.flatten(function.structured_input_signature)
    tensors = tensors_of(function)
    if not tensors or any(spec.shape.rank is None for spec in tensors):
        return 0
    return 1 if any(leaf is True for leaf in leaves) else 2


def tensors_of(function: TfFunction) -> list[Any]:
    """The tensors (`tf.TensorSpec`) that a function takes, in its order."""
    import tensorflow as tf

    if function.structured_input_signature is None:  # pruned out of a graph of TF1
        captured = {inside.name for _, inside in function.graph.captures}
        given = [tensor for tensor in function.inputs if tensor.name not in captured]
        return [tf.TensorSpec(one.shape, one.dtype, one.op.name) for one in given]
    positional, keywords = function.structured_input_signature
    # TensorFlow sorts what is in a structure, but not the keywords themselves.
    given = [*positional, *keywords.values()]
    return [leaf for leaf in tf.nest.flatten(given) if isinstance(leaf, tf.TensorSpec)]

"""The functions of a SavedModel that has no signatures."""

from collections.abc import Mapping
from typing import Any

from tfmp.converters.shared.frameworks import TfFunction
from tfmp.converters.shared.tensors import TensorSpec


def signatures_of(functions: Mapping[str, TfFunction]) -> str:
    """Each function with its inputs, for a message."""
    texts = []
    for name, function in functions.items():
        specs = [TensorSpec("", tuple(one.shape), one.dtype.name) for one in _tensors(function)]
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
    tensors = _tensors(function)
    if not tensors or any(spec.shape.rank is None for spec in tensors):
        return 0
    return 1 if any(leaf is True for leaf in leaves) else 2


def _tensors(function: TfFunction) -> list[Any]:
    import tensorflow as tf

    leaves = tf.nest.flatten(function.structured_input_signature)
    return [leaf for leaf in leaves if isinstance(leaf, tf.TensorSpec)]

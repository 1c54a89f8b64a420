"""Finds what in a graph would do more than compute, before it runs."""

import math
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from tfmp.converters.intake.trust.names import OPERATIONS
from tfmp.converters.shared.errors import Refusal
from tfmp.converters.shared.frameworks import NodeDef, TracedFunction
from tfmp.converters.shared.memory import check_memory

ALLOW = "If you trust the source of the model, allow it with --unsafe-load (unsafe_load=True)"

# They print, which is no part of a model's results; PrintV2 may print into a file.
_PRINTING = ("Print", "PrintV2")
_STREAMS = (b"", b"stdout", b"stderr", b"log(info)", b"log(warning)", b"log(error)")


def prints(node: NodeDef) -> bool:
    """Whether a node prints on a stream, and nowhere else."""
    return node.op in _PRINTING and node.attr["output_stream"].s in _STREAMS


def beyond_computing(
    nodes: Iterable[NodeDef], functions: Collection[str], allowed: Collection[str] = ()
) -> Iterator[NodeDef]:
    """The nodes that do more than compute.

    Args:
        nodes: of a graph or a function.
        functions: names of functions that they may call, whose own nodes are looked at apart.
        allowed: names of nodes and of operations that do no harm where they stand.
    """
    for node in nodes:
        known = node.op in OPERATIONS or node.op in functions
        if not known and not {node.op, node.name}.intersection(allowed):
            yield node


def told(node: NodeDef, where: str) -> str:
    """The sentence on a node that does more than compute, and `where` it stands."""
    return (
        f"node {node.name!r} of {where} calls {node.op}, which does more than compute: it could "
        "read or write files, or run code"
    )


def code_in_trace(traced: TracedFunction) -> Refusal | None:
    """Why a model that was traced may not be called; None if its graph only computes."""
    operations = traced.graph.get_operations()
    # Not all nodes: constants may be large.
    nodes = [each.node_def for each in operations if each.type not in OPERATIONS]
    functions = traced.graph._functions
    for function in functions.values():
        nodes += function.cached_definition.node_def
    found = (node for node in beyond_computing(nodes, functions) if not prints(node))
    return next((Refusal(told(node, "the model"), remedy=ALLOW) for node in found), None)


def check_sizes(path: Path, traced: TracedFunction) -> None:
    """Raises `InputError` for a tensor that needs more memory for one sample than there is."""
    for operation in traced.graph.get_operations():
        for tensor in operation.outputs:
            sizes = [size or 1 for size in tensor.shape.as_list()] if tensor.shape.rank else []
            needed = math.prod(sizes) * tensor.dtype.base_dtype.size
            check_memory(f"{path}: node {operation.name!r}, of shape {tensor.shape},", needed)

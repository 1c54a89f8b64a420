"""Finds what in a SavedModel would do more than compute, before TensorFlow reads it.

A SavedModel is a program: its graph may read and write files, open connections or run code when it
is loaded, when TensorFlow folds its constants, and when it is run. So every operation of every
graph and function in the file has to be one that only computes. Loading and calls end in time.
"""

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from itertools import chain
from pathlib import PurePosixPath, PureWindowsPath

from tfmp.converters.intake.trust.names import ALLOW, OPERATIONS, reached
from tfmp.converters.shared.errors import Refusal
from tfmp.converters.shared.frameworks import MetaGraphDef, NodeDef, SavedModelProto

# They print, which is no part of a model's results, and is left out when the graph is traced anew.
_PRINTING = ("Print", "PrintV2")  # the latter may print into a file
_STREAMS = (b"", b"stdout", b"stderr", b"log(info)", b"log(warning)", b"log(error)")

# Every SavedModel has them: they write and read its variables where the caller says, and TensorFlow
# calls them in the functions that it keeps for this purpose only.
_CHECKPOINT = frozenset({"SaveV2", "RestoreV2", "MergeV2Checkpoints"})
_TABLES = ("InitializeTableFromTextFile", "InitializeTableFromTextFileV2")
_INIT_COLLECTIONS = ("saved_model_main_op", "legacy_init_op")


def code_in_saved_model(saved: SavedModelProto) -> Refusal | None:
    """Why a SavedModel may not be loaded; None if nothing in it does more than compute."""
    for graph in saved.meta_graphs:
        program = _Program(graph)
        if (foreign := program.foreign()) is not None:
            return foreign
        reason = next(program.reasons(), None)
        if reason is not None:
            return Refusal(reason, remedy=ALLOW)
    return None


class _Program:
    """The graph of a SavedModel and its functions."""

    def __init__(self, meta: MetaGraphDef) -> None:
        self._meta = meta
        self._top = {node.name: node for node in meta.graph_def.node}
        self._functions = {each.signature.name: each for each in meta.graph_def.library.function}

    def foreign(self) -> Refusal | None:
        """Why no TensorFlow of here can load it: an operation of a library that is not here."""
        from tensorflow.python.framework import op_def_registry

        functions = (each.node_def for each in self._functions.values())
        for node in chain(self._top.values(), *functions):
            known = node.op in OPERATIONS or node.op in self._functions
            if not known and op_def_registry.get(node.op) is None:
                return Refusal(
                    f"node {node.name!r} calls {node.op}, which TensorFlow does not have here",
                    remedy="Name the model that this one was made from, or import the library of "
                    "that operation and load the model in Python",
                )
        return None

    def reasons(self) -> Iterator[str]:
        """A sentence for each part that does more than compute."""
        for asset in self._meta.asset_file_def:
            path = PurePosixPath(asset.filename.replace("\\", "/"))
            if path.is_absolute() or ".." in path.parts or PureWindowsPath(asset.filename).drive:
                yield f"it reads the file {asset.filename!r}, which is outside of its folder"
        yield from self._calls("the graph", self._top.values(), self._unused_top)
        for name, function in self._functions.items():
            unused = _CHECKPOINT if name in self._savers else ()
            yield from self._calls(f"function {name!r}", function.node_def, unused, name)

    def _calls(
        self, where: str, nodes: Iterable[NodeDef], allowed: Collection[str], function: str = ""
    ) -> Iterator[str]:
        """A sentence for each node that does more; `allowed` names its kind, or itself."""
        for node in nodes:
            if node.op in OPERATIONS or node.op in self._functions:
                continue
            if node.op in _PRINTING and node.attr["output_stream"].s in _STREAMS:
                continue
            if not {node.op, node.name}.isdisjoint(allowed):
                continue
            if node.op not in _TABLES:
                yield (
                    f"node {node.name!r} of {where} calls {node.op}, which does more than compute: "
                    "it could read or write files, or run code"
                )
            elif not self._reads_asset(node, function):
                yield (
                    f"node {node.name!r} of {where} fills a table from a file that is not one of "
                    "the model's assets"
                )

    @cached_property
    def _run(self) -> set[str]:
        """Nodes of the outermost graph that run when it is initialized or called."""
        signatures = self._meta.signature_def.values()
        outputs = [info.name for each in signatures for info in each.outputs.values()]
        return self._behind([*outputs, *self._initial])

    @cached_property
    def _initial(self) -> list[str]:
        collections = self._meta.collection_def
        return [
            name
            for key in _INIT_COLLECTIONS
            if key in collections
            for name in collections[key].node_list.value
        ]

    @cached_property
    def _restored(self) -> set[str]:
        """Nodes of the outermost graph that run when variables are restored."""
        return self._behind([self._meta.saver_def.restore_op_name])

    @cached_property
    def _unused_top(self) -> set[str]:
        """Names of nodes for checkpoints that never run, or read from where the caller says."""
        filename = _node_of(self._meta.saver_def.filename_tensor_name)
        found = set()
        for node in self._top.values():
            if node.op in _CHECKPOINT and node.name not in self._run:
                given = node.op == "RestoreV2" and self._origin(node.input[0]) == filename
                if given or node.name not in self._restored:
                    found.add(node.name)
        return found

    @cached_property
    def _savers(self) -> set[str]:
        """Functions that only the unused saver of an object-based SavedModel calls."""
        objects = self._meta.object_graph_def
        if not objects.nodes:
            return set()
        used = set(objects.concrete_functions)
        for node in objects.nodes:
            used |= {*node.function.concrete_functions}
            used.add(node.bare_concrete_function.concrete_function_name)
        for gradient in self._meta.graph_def.library.gradient:
            used |= {gradient.function_name, gradient.gradient_func}
        used |= self._called(self._top[name] for name in self._run)
        return self._functions.keys() - self._all_called(used)

    def _called(self, nodes: Iterable[NodeDef]) -> set[str]:
        """The functions that nodes call."""
        names = set()
        for node in nodes:
            names.add(node.op)
            for value in node.attr.values():
                names |= {value.func.name, *(function.name for function in value.list.func)}
        return names & self._functions.keys()

    def _all_called(self, names: Collection[str]) -> set[str]:
        """These functions and all that they call."""
        functions = self._functions
        return reached(
            functions.keys() & names, lambda name: self._called(functions[name].node_def)
        )

    def _reads_asset(self, node: NodeDef, function: str) -> bool:
        """Whether the file of a table is an asset of the model."""
        if len(node.input) < 2:
            return False
        if not function:
            assets = {_node_of(each.tensor_info.name) for each in self._meta.asset_file_def}
            return self._origin(node.input[1]) in assets
        objects = self._meta.object_graph_def
        arguments = [each.name for each in self._functions[function].signature.input_arg]
        if function not in objects.concrete_functions or node.input[1] not in arguments:
            return False
        bound = objects.concrete_functions[function].bound_inputs
        place = arguments.index(node.input[1]) - (len(arguments) - len(bound))
        if not 0 <= place < len(bound) or not 0 <= bound[place] < len(objects.nodes):
            return False
        return objects.nodes[bound[place]].WhichOneof("kind") == "asset"

    def _origin(self, name: str) -> str:
        """The node of the outermost graph that a value comes from, behind identities."""
        plain, seen = _node_of(name), set()
        while plain in self._top and self._top[plain].op == "Identity" and plain not in seen:
            seen.add(plain)
            plain = _node_of(next(iter(self._top[plain].input), ""))
        return plain

    def _behind(self, names: Iterable[str]) -> set[str]:
        """Nodes of the outermost graph that these need, and themselves."""

        def before(name: str) -> set[str]:
            return {_node_of(each) for each in self._top[name].input} & self._top.keys()

        return reached({_node_of(name) for name in names} & self._top.keys(), before)


def _node_of(name: str) -> str:
    return name.removeprefix("^").partition(":")[0]

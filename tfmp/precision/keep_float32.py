"""`keep` and `keep_float32`: names, regular expressions, classes and predicates, matched against a
model.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping

from keras import layers

from tfmp.precision.layer_tree import ROOT, LayerNode
from tfmp.precision.policy_names import KEPT_POLICIES
from tfmp.shared.arguments import check_choice
from tfmp.shared.wording import listed, shown

Pattern = str | re.Pattern[str] | type[layers.Layer] | Callable[[layers.Layer], bool]


def match_keep(
    keep: Mapping[str, Pattern | Iterable[Pattern]], tree: LayerNode, argument: str
) -> dict[int, tuple[str, str]]:
    """Finds the layers that a user wants in certain dtypes.

    By dtype there is one pattern, or several. A string is a layer's name or path, or a regular
    expression that must match a whole path; a compiled regular expression is searched for in paths;
    a layer class matches all its instances; any other callable is asked about each layer.

    Returns:
        By id of the layer, the dtype and the pattern that named it, as text. A name or a path wins
        over expressions, classes and predicates. A layer that is not named itself has those of the
        nearest layer around it that is.

    Raises:
        ValueError: a pattern matches no layer or is no valid regular expression, or a layer has
            two dtypes.
        TypeError: a pattern is of another kind.
    """
    named: dict[int, tuple[str, str, bool]] = {}
    for dtype, patterns in keep.items():
        for pattern in as_patterns(patterns):
            for node in _match(pattern, tree, argument):
                key, text, by_name = id(node.layer), _text(pattern), pattern in _names(node)
                before = named.get(key, (dtype, text, False))
                if before[0] != dtype and before[2] == by_name:
                    raise ValueError(
                        f"{argument} names {node.path} twice: {before[0]} by {before[1]!r} and "
                        f"{dtype} by {text!r}. Make one of the patterns narrower."
                    )
                if key not in named or by_name > before[2]:
                    named[key] = (dtype, text, by_name)
    found: dict[int, tuple[str, str]] = {}
    for node in tree.within():  # containers come before their layers
        around = found.get(id(node.owner.layer)) if node.owner else None
        own = named.get(id(node.layer), around)
        if own is not None:
            found[id(node.layer)] = own[:2]
    return found


def check_keep(keep: object) -> None:
    """Accepts a mapping from dtypes that layers compute in to patterns, or None."""
    if keep is None:
        return
    if not isinstance(keep, Mapping):
        raise TypeError(
            f"keep expects a mapping from dtypes to layers; received {shown(keep)}. "
            "For example: keep={'float32': ['norm'], 'bfloat16': 'encoder/.*'}."
        )
    for dtype in keep:
        check_choice("a dtype in keep", dtype, tuple(KEPT_POLICIES), "'float32' is the usual one.")


def as_patterns(patterns: Pattern | Iterable[Pattern]) -> list[Pattern]:
    """One pattern or several as a list; raises `TypeError` for anything else."""
    if isinstance(patterns, str | re.Pattern | type) or callable(patterns):
        return [patterns]
    if isinstance(patterns, Iterable):
        return list(patterns)
    raise TypeError(_wrong_kind(patterns))


def _match(pattern: Pattern, tree: LayerNode, argument: str) -> list[LayerNode]:
    nodes = [node for node in tree.within() if node.path != ROOT]
    if isinstance(pattern, str):
        found = [node for node in nodes if pattern in _names(node)] or _whole(pattern, nodes)
    elif isinstance(pattern, re.Pattern):
        found = [node for node in nodes if pattern.search(node.path)]
    elif isinstance(pattern, type) and issubclass(pattern, layers.Layer):
        found = [node for node in nodes if isinstance(node.layer, pattern)]
    elif callable(pattern) and not isinstance(pattern, type):
        found = [node for node in nodes if pattern(node.layer)]
    else:
        raise TypeError(_wrong_kind(pattern))
    if not found:
        raise ValueError(_nothing_matched(argument, pattern, nodes))
    return found


def _whole(pattern: str, nodes: list[LayerNode]) -> list[LayerNode]:
    """The layers of which a regular expression matches a whole path."""
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise ValueError(
            f"keep_float32 expected a layer name or a regular expression over layer paths, "
            f"received {pattern!r}: {error}. Escape special characters with a backslash."
        ) from None
    return [node for node in nodes if any(map(expression.fullmatch, _names(node)[1:]))]


def _names(node: LayerNode) -> tuple[str, ...]:
    """A layer's name, and the paths that a plan and Keras have for it."""
    return (node.layer.name, node.path, node.layer.path or node.path)


def _text(pattern: Pattern) -> str:
    if isinstance(pattern, re.Pattern):
        return pattern.pattern
    return pattern if isinstance(pattern, str) else getattr(pattern, "__name__", repr(pattern))


def _nothing_matched(argument: str, pattern: Pattern, nodes: list[LayerNode]) -> str:
    kind, known = "layer", [name for node in nodes for name in (node.layer.name, node.path)]
    if isinstance(pattern, type):
        kind, known = "class", sorted(type(node.layer).__name__ for node in nodes)
    known = list(dict.fromkeys(known))
    close = difflib.get_close_matches(_text(pattern), known, n=3, cutoff=0.5)
    hint = f"The model's {kind} names are: {listed(known, 8)}."
    if close:
        hint = f"Names like it are: {', '.join(close)}."
    return (
        f"{argument} {_text(pattern)!r} matches no layer of the model. {hint} "
        "print(tfmp.plan(model)) lists every path."
    )


def _wrong_kind(received: object) -> str:
    return (
        "keep_float32 expects layer names, regular expressions, layer classes or predicates, "
        f"received {shown(received)}. Pass one of these or a list of them."
    )

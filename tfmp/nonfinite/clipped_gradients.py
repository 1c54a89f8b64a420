"""Code that clips the values of gradients that are still multiplied by the loss scale.

Bounds are written for the gradients of the loss: of those of a scaled loss next to nothing is left
after the clipping and the division. Losses, activations and weights may be clipped, so the code is
read: a clipped value has to come from the gradients of a loss that `scale_loss` was called on.
"""

import ast

_CLIPS = ("clip", "clip_by_value")
# Calls that hand gradients on, one by one. Norms, sums and applied updates are no gradients.
_HANDS_ON = ("list", "tuple", "zip", "map", "map_structure", "tree_map")


def clipped_values(source: str, scaling: str) -> str | None:
    """The call that clips gradients of a scaled loss, such as "clip_by_value"; None without one.

    Args:
        source: code of functions and classes.
        scaling: name of the method that scales a loss.
    """
    try:
        parsed = ast.parse(source)
    except SyntaxError:
        return None
    functions = [node for node in ast.walk(parsed) if isinstance(node, ast.FunctionDef)]
    return next(filter(None, (_Step(one, scaling).clips() for one in functions)), None)


class _Step:
    """The names in a function that hold a scaled loss, or its gradients."""

    def __init__(self, function: ast.FunctionDef, scaling: str) -> None:
        self._nodes = list(ast.walk(function))
        self._scaling = scaling
        self._losses: set[str] = set()
        self._gradients: set[str] = set()
        self._functions: set[str] = set()
        known, before = 0, -1
        while known > before:  # a loop may hand a gradient on to a name that stands before it
            before = known
            for node in self._nodes:
                self._follow(node)
            known = len(self._losses) + len(self._gradients) + len(self._functions)

    def clips(self) -> str | None:
        """The name of the first call that clips the gradients."""
        for node in self._nodes:
            if isinstance(node, ast.Call) and _name(node.func) in _CLIPS and node.args:
                first = node.args[0]
                if self._holds_gradients(first):
                    return _name(node.func)
        return None

    def _follow(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, ast.For | ast.comprehension):
            self._iterate(node.target, node.iter)
        elif isinstance(node, ast.Call) and _name(node.func) in _HANDS_ON:
            for one in node.args:
                if isinstance(one, ast.Lambda) and any(map(self._holds_gradients, node.args)):
                    self._gradients.update(argument.arg for argument in one.args.args[:1])

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, of in zip(target.elts, value.elts, strict=False):
                self._assign(one, of)
        elif isinstance(value, ast.Call) and self._is_value_and_grad(value.func):
            if isinstance(target, ast.Tuple):
                self._gradients |= _names(target.elts[-1])
        elif self._is_value_and_grad(value):
            self._functions |= _names(target)
        elif self._holds_gradients(value):
            self._gradients |= _names(target)
        elif self._holds_scaled_loss(value):
            self._losses |= _names(target)

    def _iterate(self, target: ast.expr, values: ast.expr) -> None:
        """Of `zip(gradients, weights)` the first names are gradients."""
        if isinstance(values, ast.Call) and _name(values.func) == "zip":
            if isinstance(target, ast.Tuple):
                for one, of in zip(target.elts, values.args, strict=False):
                    self._iterate(one, of)
        elif self._holds_gradients(values):
            self._gradients |= _names(target)

    def _is_value_and_grad(self, value: ast.expr) -> bool:
        """Whether a value is the function that JAX makes of one that returns a loss."""
        if isinstance(value, ast.Call):
            return _name(value.func) == "value_and_grad"
        return isinstance(value, ast.Name) and value.id in self._functions

    def _holds_scaled_loss(self, value: ast.expr) -> bool:
        if isinstance(value, ast.Call):
            return _name(value.func) == self._scaling
        return isinstance(value, ast.Name) and value.id in self._losses

    def _holds_gradients(self, value: ast.expr) -> bool:
        """Whether a value is a gradient of the scaled loss, or a list of such gradients."""
        match value:
            case ast.Name():
                return value.id in self._gradients
            case ast.Subscript() | ast.Starred():
                return self._holds_gradients(value.value)
            case ast.ListComp() | ast.GeneratorExp():
                return self._holds_gradients(value.elt)
            case ast.IfExp():
                return self._holds_gradients(value.body) or self._holds_gradients(value.orelse)
            case ast.List() | ast.Tuple():
                return any(map(self._holds_gradients, value.elts))
            case ast.Call():
                name = _name(value.func)
                if name == "gradient":
                    return bool(value.args) and self._holds_scaled_loss(value.args[0])
                return name in _HANDS_ON and any(map(self._holds_gradients, value.args))
        return False


def _name(function: ast.expr) -> str:
    """The last name of a called function: "clip" of `keras.ops.clip`."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _names(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}

"""Registers this package's classes with Keras as soon as both are imported, in either order.

A model that was trained with `tfmp.MixedPrecision` has a `tfmp>LossScaleOptimizer` in its file.
Keras finds it only among registered classes, and the modules that define them load lazily: without
this module, `import tfmp` would not be enough for `keras.models.load_model`.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

# Class name -> the module that defines and really registers it.
REGISTERED = {
    "DynamicLossScale": "tfmp.loss_scaling.strategies",
    "LossScaleOptimizer": "tfmp.loss_scaling.optimizer",
    "ScheduledLossScale": "tfmp.loss_scaling.strategies",
    "StaticLossScale": "tfmp.loss_scaling.strategies",
}


class LazyClass:
    """Takes the place of a class in Keras's registry until its module is imported."""

    def __init__(self, name: str) -> None:
        self._name = name

    def from_config(self, config: dict[str, object], **options: object) -> object:
        """Imports the class, which then takes this object's place, and makes an instance."""
        real = getattr(import_module(REGISTERED[self._name]), self._name)
        return real.from_config(config, **options)


def when_keras_is_imported() -> None:
    """Registers the classes now if Keras is loaded, otherwise as soon as it is."""
    if "keras" in sys.modules:
        _register()
    elif not any(isinstance(finder, _KerasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _KerasFinder())


def _register() -> None:
    # Not the classes themselves: this may run while one of their modules is being imported.
    known = sys.modules["keras"].saving.get_custom_objects()
    for name in REGISTERED:
        known.setdefault(f"tfmp>{name}", LazyClass(name))


# Without the base classes of importlib.abc: that module alone takes longer to import than this
# package.
class _KerasFinder:
    """Finds Keras like the other finders, and has its loader register the classes."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        if name != "keras":
            return None
        from importlib.util import find_spec

        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            loader = cast(Any, spec.loader)
            executing = loader.exec_module

            def exec_module(module: "ModuleType") -> None:
                loader.exec_module = executing
                executing(module)
                _register()

            loader.exec_module = exec_module
        return spec

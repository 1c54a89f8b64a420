"""Begins before every callback's `on_train_begin`, wherever in the list a callback stands.

`BackupAndRestore` reads the state of an interrupted run in `on_train_begin`. If the optimizer is
wrapped after that, Keras has found no place for this state, and has left it out with no more than a
warning. `fit` gives every callback its model first, makes its train function, and only then calls
`on_train_begin`; so the moment between is the one for changes of the optimizer.
"""

from collections.abc import Callable

import keras

_METHOD = "make_train_function"


def before_callbacks_begin(model: keras.Model, begin: Callable[[], object]) -> Callable[[], None]:
    """Calls `begin` once, when `fit` makes its train function.

    Args:
        model: the model that a callback was given.
        begin: called without arguments.

    Returns:
        A function that takes the request back. Call it as soon as anything but `fit` turns out to
        use the callback, and when `fit` has begun.
    """
    own = vars(model)
    # A new one for each `fit`: one that failed meanwhile, in another callback's `set_model`, asks
    # for nothing in the next.
    history = getattr(model, "history", None)

    def make_train_function(force: bool = False) -> object:
        take_back()
        if getattr(model, "history", None) is history:
            begin()
        return getattr(model, _METHOD)(force)

    def take_back() -> None:
        if own.get(_METHOD) is make_train_function:
            del own[_METHOD]

    own[_METHOD] = make_train_function
    return take_back

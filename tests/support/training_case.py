"""A public report of trouble with mixed-precision training, rebuilt for Keras and for tfmp."""

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import keras
import numpy as np

import tfmp


@dataclass(frozen=True)
class Outcome:
    """What came of one rebuilt report.

    Attributes:
        good: whether the user gets the result that was asked for, or a sentence that leads there.
        words: the result.
    """

    good: bool
    words: str

    def __str__(self) -> str:
        return f"{'yes' if self.good else 'no'}: {self.words}"


@dataclass(frozen=True)
class TrainingCase:
    """One report.

    Attributes:
        thread: where it was made, as in "owner/name#7".
        title: what goes wrong there, in a few words.
        keras: does what the report does, with Keras alone.
        tfmp: does it with this package.
        backend: the Keras backend that both need.
    """

    thread: str
    title: str
    keras: Callable[[], Outcome]
    tfmp: Callable[[], Outcome]
    backend: str = "tensorflow"

    @property
    def link(self) -> str:
        """The address of the thread."""
        repository, number = self.thread.split("#")
        return f"https://github.com/{repository}/issues/{number}"


def run(side: Callable[[], Outcome]) -> Outcome:
    """The outcome of one side; an error is one, too."""
    keras.utils.set_random_seed(0)
    before = keras.config.dtype_policy()
    try:
        return side()
    except Exception as error:  # whatever the report is about
        return Outcome(False, f"{type(error).__name__}: {_first_words(str(error))}")
    finally:
        keras.config.set_dtype_policy(before)
        keras.backend.clear_session()


def _first_words(text: str, most: int = 160) -> str:
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)  # Keras writes in bold
    text = re.sub(r"<[^<>]* at 0x[0-9a-f]+>", "<...>", " ".join(text.split()))
    return text if len(text) <= most else text[:most].rsplit(" ", 1)[0] + " ..."


def rows(*shape: int, scale: float = 1.0, count: int = 64) -> np.ndarray:
    """Seeded samples from a normal distribution."""
    return (np.random.default_rng(1).standard_normal((count, *shape)) * scale).astype("float32")


def sums(x: np.ndarray, factor: float = 0.1) -> np.ndarray:
    """A target that can be learnt: the sum of each row."""
    return (x.reshape(len(x), -1).sum(axis=1, keepdims=True) * factor).astype("float32")


def learnt(history: keras.callbacks.History, share: float = 0.9) -> Outcome:
    """Whether a training is finite and its loss falls below this share of its start."""
    # A step of the user's own has its loss under another name: Keras writes its tracker's over it.
    losses = history.history.get("own_loss") or history.history["loss"]
    first, last = losses[0], losses[-1]
    good = math.isfinite(last) and last < share * first
    return Outcome(good, f"loss {first:.2g} to {last:.2g}")


@contextmanager
def mixed() -> Iterator[None]:
    """Keras's way: the global policy, before layers are made."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


Build = Callable[[], keras.Model]


def by_policy(
    build: Build, x: object, y: object, loss: object = "mse", rate: float = 0.01, **options: object
) -> Outcome:
    """Trains a model that is built under Keras's global policy."""
    with mixed():
        model = build()
        return _fit(model, x, y, loss, rate, [], **options)


def by_callback(
    build: Build, x: object, y: object, loss: object = "mse", rate: float = 0.01, **options: object
) -> Outcome:
    """Trains the float32 model with the callback."""
    callback = tfmp.MixedPrecision("mixed_float16")
    return _fit(build(), x, y, loss, rate, [callback], **options)


def _fit(
    model: keras.Model,
    x: object,
    y: object,
    loss: object,
    rate: float,
    callbacks: list[keras.callbacks.Callback],
    epochs: int = 6,
    **options: object,
) -> Outcome:
    if getattr(model, "optimizer", None) is None:
        model.compile(keras.optimizers.Adam(rate), loss, **{"jit_compile": False, **options})
    return learnt(
        model.fit(x, y, batch_size=16, epochs=epochs, verbose=0, callbacks=callbacks, shuffle=False)
    )


def both(
    thread: str,
    title: str,
    build: Build,
    x: object,
    y: object,
    loss: object = "mse",
    **options: object,
) -> TrainingCase:
    """A report about `fit`: the same model under Keras's policy and with the callback."""
    return TrainingCase(
        thread,
        title,
        lambda: by_policy(build, x, y, loss, **options),
        lambda: by_callback(build, x, y, loss, **options),
    )

"""Task: a model, its data and its metric, for `tfmp.compare`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from tfmp.shared.arguments import check_count, check_number

if TYPE_CHECKING:
    import keras
    import numpy as np

# The start of a task file, which `tfmp compare --init` writes.
TEMPLATE = '''\
"""My own task for `tfmp compare THIS_FILE.py:task`."""

import keras
import numpy as np

import tfmp


def build() -> keras.Model:
    """The model, compiled in plain float32; it is built anew for every run."""
    model = keras.Sequential(
        [
            keras.Input((8,), name="features"),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(1, name="value"),
        ]
    )
    model.compile("adam", "mse")
    return model


def error(predictions: np.ndarray, labels: np.ndarray) -> float:
    """The metric that decides: it gets the predictions for all test samples."""
    return float(np.mean(np.abs(predictions[:, 0] - labels)))


error.lower_is_better = True


def task() -> tfmp.Task:
    """Replace these made-up numbers with your own arrays."""
    random = np.random.default_rng(0)
    x = random.normal(size=(600, 8)).astype("float32")
    y = x.sum(axis=1) + 0.1 * random.normal(size=600).astype("float32")
    return tfmp.Task(
        name="my task",
        build=build,
        train=(x[:400], y[:400]),
        test=(x[400:], y[400:]),
        metric=error,
        margin=0.02,  # a change of the metric by so much does not matter to you
        epochs=10,
    )
'''

Metric: TypeAlias = "Callable[[Any, Any], float]"
Arrays: TypeAlias = "tuple[Any, np.ndarray]"


@dataclass(frozen=True, eq=False)
class Task:
    """What `tfmp.compare` trains, converts and compares.

    Attributes:
        name: the task's name in reports.
        build: a function without arguments that builds and compiles a float32 Keras model.
        train: training samples and their labels, as arrays or dicts of arrays.
        test: samples and labels that no model is trained on, in the same form.
        metric: a function of predictions and labels that gives one number; higher is better,
            unless the function has an attribute `lower_is_better` that is true. Predictions are the
            array of the only output, or a dict of arrays by output name.
        margin: the difference of the metric that does not matter, in its own units. Declare it
            before you look at results.
        epochs: passes over the training samples in every run.
        batch_size: samples in a training step.
        outputs: meanings of outputs by name, as the argument `tasks` of `tfmp.converters.validate`.
        about: a sentence about the task for the report.

    Raises:
        TypeError: `build` or `metric` is not a function.
        ValueError: another argument cannot be used.
    """

    name: str
    build: "Callable[[], keras.Model]"
    train: Arrays
    test: Arrays
    metric: Metric
    margin: float
    epochs: int = 5
    batch_size: int = 32
    outputs: Mapping[str, str] = field(default_factory=dict)
    about: str = ""

    def __post_init__(self) -> None:
        for name in ("build", "metric"):
            if not callable(getattr(self, name)):
                raise TypeError(
                    f"Task({name}=...) expects a function, received "
                    f"{type(getattr(self, name)).__name__}. Pass the function itself, without "
                    "calling it."
                )
        check_number("Task(margin=...)", self.margin, above=0)
        object.__setattr__(self, "margin", float(self.margin))  # NumPy's are no JSON
        for name in ("epochs", "batch_size"):
            count = check_count(f"Task({name}=...)", getattr(self, name))
            object.__setattr__(self, name, count)
        for name in ("train", "test"):
            _check_arrays(name, getattr(self, name))

    @property
    def sign(self) -> int:
        """1 where a higher metric is better, -1 where a lower one is."""
        return -1 if getattr(self.metric, "lower_is_better", False) else 1

    @property
    def metric_name(self) -> str:
        """The metric's name for people."""
        return getattr(self.metric, "__name__", type(self.metric).__name__).replace("_", " ")


def _check_arrays(name: str, data: Any) -> None:
    if not (isinstance(data, tuple) and len(data) == 2):
        raise ValueError(
            f"Task({name}=...) expects a tuple (x, y) of arrays, received {type(data).__name__}."
        )
    import numpy as np

    arrays = [
        array for part in data for array in (part.values() if isinstance(part, Mapping) else [part])
    ]
    for array in arrays:
        if not (isinstance(array, np.ndarray) and array.ndim):
            raise ValueError(
                f"Task({name}=...) expects NumPy arrays with an axis of samples, received "
                f"{type(array).__name__}. Convert it with numpy.asarray; several inputs or outputs "
                "are a dict of arrays by name."
            )
    sizes = {len(array) for array in arrays}
    if len(sizes) != 1 or 0 in sizes:
        found = ", ".join(map(str, sorted(sizes)))
        raise ValueError(
            f"Task({name}=...) expects arrays with the same number of samples, 1 or more; received "
            f"{found} samples."
        )

"""FusedStep: how many programs a round of steps is on TensorFlow."""

import keras
import pytest
from backends import only_on
from colocated_jobs import X, Y

from tfmp.colocation.fused import FusedStep
from tfmp.colocation.job import Job
from tfmp.colocation.training import Training

pytestmark = [
    pytest.mark.slow,  # each of them compiles with XLA
    only_on("tensorflow", reason="JAX compiles all of it anyway, PyTorch nothing"),
]


def dense(by_xla: bool) -> keras.Model:
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(True)
    model.compile(keras.optimizers.SGD(0.1), loss, jit_compile=by_xla)
    return model


def jobs(*by_xla: bool) -> list[Job]:
    return [
        Job(lambda it=it: dense(it), (X, Y), steps=6, name=str(n), batch_size=8, seed=n)
        for n, it in enumerate(by_xla)
    ]


def calls(*by_xla: bool) -> list[bool]:
    """The calls of functions in a fused step: whether each is an XLA program."""
    trainings = [Training(job) for job in jobs(*by_xla)]
    for training in trainings:
        training.set_up()
    batches = [training.begin_step() for training in trainings]
    graph = FusedStep(trainings)._step.get_concrete_function(batches).graph
    functions = {f.signature.name: f for f in graph.as_graph_def().library.function}
    called = [op.get_attr("f").name for op in graph.get_operations() if "Call" in op.type]
    return [functions[name].attr["_XlaMustCompile"].b for name in called]


def test_jobs_that_compile_with_xla_are_one_program_without_the_others():
    assert calls(True, True) == [True]
    assert calls(True, False, True) == [True, False]

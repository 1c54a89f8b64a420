"""Keras on TensorFlow: the variables that a graph may assign values to."""

import keras
import pytest

from tfmp.shared.backend import current_backend

tf = pytest.importorskip("tensorflow")


def test_variables_that_a_graph_only_reads_are_not_assigned():
    one, other, inner, table = (keras.Variable([[1.0]], trainable=False) for _ in range(4))
    found = []

    def set_other():
        other.assign([[2.0]])

    @tf.function
    def nested():
        inner.assign(inner + 1.0)

    @tf.function
    def step():
        one.assign_add(tf.gather(table.value, [0]) + table.value)
        tf.cond(table.value[0, 0] > 0, set_other, lambda: None)
        nested()
        found.append(current_backend().maybe_assigned([one, other, inner, table]))

    step()
    assert [[id(variable) for variable in some] for some in found] == [
        [*map(id, (one, other, inner))]
    ]
    assert current_backend().maybe_assigned([table]) == [table]  # nothing is being traced

"""A graph that was traced is looked at as a whole before it is called."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tfmp.converters.intake.trust import check_sizes, code_in_trace
from tfmp.converters.shared.errors import InputError


def traced(body: Callable[[Any], Any]) -> Any:
    return tf.compat.v1.wrap_function(body, [tf.TensorSpec([None, 4])])


def reason(body: Callable[[Any], Any]) -> str | None:
    return code_in_trace(traced(body))


def behind(effect: Any, x: Any) -> Any:
    with tf.control_dependencies([effect]):
        return tf.identity(x)


def looped(step: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: tf.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, step(x)), (0, x))[1]


def test_operations_inside_of_loops_and_functions_are_seen():
    def written(x: Any) -> Any:
        return behind(tf.io.write_file("never", "written"), x)

    for body in (written, looped(written), tf.function(looped(written))):
        assert "calls WriteFile, which does more than compute" in str(reason(body))
    assert reason(looped(lambda x: x * 2.0)) is None
    assert not Path("never").exists()


def test_a_print_on_a_stream_is_harmless_and_one_into_a_file_is_not():
    assert reason(lambda x: behind(tf.print("here"), x)) is None
    text = reason(lambda x: behind(tf.print("here", output_stream="file:///never"), x))
    assert "calls PrintV2" in str(text)


def test_a_tensor_that_no_memory_holds_is_refused():
    def check(rows: int) -> None:
        body = lambda x: x[:1] + tf.zeros(tf.constant([rows, 4], tf.int64))  # noqa: E731
        check_sizes(Path("m.h5"), traced(body))

    check(2**20)
    with pytest.raises(InputError, match=r"m\.h5: node '.*', of shape .*, asks for 1,024.0 GiB"):
        check(2**36)

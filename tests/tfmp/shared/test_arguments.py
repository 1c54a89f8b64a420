"""Checks of arguments: what each accepts, what it refuses, and in which words."""

import re
import subprocess
import sys

import keras
import numpy as np
import pytest

from tfmp.shared.arguments import (
    check_choice,
    check_compiled,
    check_count,
    check_flag,
    check_model,
    check_number,
    is_number,
    is_whole_number,
)


def test_a_choice_is_one_of_the_strings():
    check_flag("enabled", False)
    for value in (1, "no", None):
        with pytest.raises(ValueError, match=r"^enabled expects True or False; received "):
            check_flag("enabled", value)
    check_choice("mode", "a", ("a", "b"))
    for value in ("c", 1, None, ["a"]):
        with pytest.raises(
            ValueError, match=r"^mode expects one of 'a', 'b'; received .* Try 'a'\."
        ):
            check_choice("mode", value, ("a", "b"), "Try 'a'.")
    text = "rounds expects a whole number, 2 or more; received 1 of type int. Six show an interval."
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        check_count("rounds", 1, least=2, hint="Six show an interval.")
    assert is_whole_number(3)
    assert is_whole_number(np.int32(3))
    assert is_number(0.5)
    assert not any(map(is_whole_number, (True, 3.0, "3", None)))
    assert not any(map(is_number, (False, float("inf"), float("nan"), "3", None)))


@pytest.mark.parametrize("value", [0, -1, True, 2.0, "3", None, np.bool_(True)])
def test_what_is_no_count_is_refused(value):
    with pytest.raises(ValueError, match=r"^steps expects a whole number, 1 or more; received "):
        check_count("steps", value)


@pytest.mark.parametrize(
    ("bounds", "good", "bad", "words"),
    [
        ({"above": 0}, [0.5, 3], [0, -1], "a finite number above 0"),
        ({"least": 1}, [1, np.float32(2)], [0.99], "a finite number of at least 1"),
        ({"above": 0, "below": 1}, [0.5], [0, 1, 1.0], "a finite number above 0 and below 1"),
    ],
)
def test_numbers_lie_within_their_bounds(bounds, good, bad, words):
    for value in good:
        check_number("scale", value, **bounds)
    for value in [*bad, float("nan"), float("inf"), True, "1", None]:
        with pytest.raises(ValueError, match=f"^scale expects {words}; received "):
            check_number("scale", value, **bounds)


def test_models_are_told_from_other_things_and_compiled_ones_from_others():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="only")], name="net")
    check_model(model)
    with pytest.raises(TypeError, match=r"a keras\.Model; received 'net\.keras' of type str"):
        check_model("net.keras")
    with pytest.raises(ValueError, match=r"^Model 'net' is not compiled, so .*model\.compile"):
        check_compiled(model)
    model.compile("sgd", "mse")
    check_compiled(model)
    model.optimizer = None
    check_compiled(model, needs_optimizer=False)
    with pytest.raises(ValueError, match=r"^Model 'net' has no optimizer, so"):
        check_compiled(model)


@pytest.mark.slow
def test_a_model_of_keras_2_is_named_wherever_one_of_keras_3_is_needed():
    """In a process of its own: tf_keras and Keras 3 share names in this one."""
    script = (
        "import numpy as np, tf_keras, tfmp\n"
        "model = tf_keras.Sequential([tf_keras.layers.Dense(1, input_shape=(2,))])\n"
        "model.compile('sgd', 'mse')\n"
        "x, y = np.ones((4, 2)), np.ones((4, 1))\n"
        "fit = lambda: model.fit(x, y, verbose=0, callbacks=[tfmp.MixedPrecision()])\n"
        "profile = lambda: tfmp.profile_training(model, (x, y))\n"
        "for call in (fit, lambda: tfmp.plan(model), profile):\n"
        "    try:\n"
        "        call()\n"
        "    except TypeError as error:\n"
        "        assert 'Build it with Keras 3' in str(error), error\n"
        "    else:\n"
        "        raise SystemExit('no error')\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)

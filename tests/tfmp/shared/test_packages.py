"""Versions of what is installed, and the frame of a user among frames of libraries."""

from importlib.metadata import version

import keras
import numpy as np
import pytest

import tfmp
from tfmp.shared.packages import installed_versions, is_in, user_line


def test_absent_packages_are_left_out_and_the_order_is_kept():
    found = installed_versions(["numpy", "no-such-package-of-anybody", "keras"])
    assert list(found.items()) == [("numpy", version("numpy")), ("keras", version("keras"))]


USER = ("/home/user/model.py", 12)
LIBRARIES = [(keras.__file__, 1), (np.__file__, 2)]


@pytest.mark.parametrize(
    ("frames", "line"),
    [
        ([*LIBRARIES, USER, ("/home/user/train.py", 3)], "model.py:12"),
        (LIBRARIES, ""),
        ([*LIBRARIES, (tfmp.__file__, 5), USER], ""),
        ([], ""),
    ],
)
def test_the_innermost_frame_outside_libraries(frames, line):
    assert user_line(frames) == line


def test_a_folder_with_a_packages_name_at_its_begin_is_another():
    assert is_in("keras", keras.__file__)
    assert not is_in("keras", keras.__file__.replace("/keras/", "/keras_hub/"))
    assert not is_in("a_package_that_nobody_imported", "/home/user/model.py")

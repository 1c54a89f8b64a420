"""Versions of what is installed, as package managers know them."""

from importlib.metadata import version

from tfmp.shared.packages import installed_versions


def test_absent_packages_are_left_out_and_the_order_is_kept():
    found = installed_versions(["numpy", "no-such-package-of-anybody", "keras"])
    assert list(found.items()) == [("numpy", version("numpy")), ("keras", version("keras"))]

"""Marks of tests that do not hold on all of Keras's backends."""

import pytest

from tfmp.shared.backend import current_backend


def only_on(*names: str, reason: str) -> pytest.MarkDecorator:
    """Skips a test on every other backend.

    Args:
        names: of the backends that it holds on.
        reason: why it does not hold on the others.
    """
    return pytest.mark.skipif(current_backend().name not in names, reason=reason)

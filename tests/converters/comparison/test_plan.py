"""A plan says at once what cannot be measured."""

import pytest

from tfmp.converters.comparison.plan import Plan
from tfmp.converters.shared.errors import InputError


@pytest.mark.parametrize("workers", [0, -1, "two", True, 1.5])
def test_a_number_of_workers_that_is_none_is_told(workers):
    with pytest.raises(InputError, match="workers: expected a number of at least 1, received"):
        Plan.of(ray="local", workers=workers)


def test_what_is_asked_for_is_told_by_its_keyword():
    assert Plan.of().asked() == ()
    asked = Plan.of(device="cpu", split=True, ray="local", workers=2).asked()
    assert asked == ("device", "split", "ray", "workers")

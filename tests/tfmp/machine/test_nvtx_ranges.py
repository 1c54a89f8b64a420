"""nvtx_ranges: ranges that are asked for, and the sentence where the package is missing."""

import sys
from contextlib import contextmanager
from types import ModuleType

import pytest

from tfmp.machine import nvtx_ranges


@pytest.fixture
def marked(monkeypatch):
    """A package `nvtx` that writes its ranges down: their ends, with the names around them."""
    found, inside = [], []

    @contextmanager
    def annotate(message=None, color=None, domain=None, category=None, payload=None):
        inside.append(message)
        yield
        found.append((domain, *inside))
        inside.pop()

    module = ModuleType("nvtx")
    module.annotate = annotate
    monkeypatch.setitem(sys.modules, "nvtx", module)
    monkeypatch.setattr(nvtx_ranges, "find_spec", lambda name: module)
    return found


def test_ranges_lie_in_each_other_where_they_are_asked_for(marked):
    with nvtx_ranges.nvtx_marks(False)("steps"):
        pass
    assert marked == []
    mark = nvtx_ranges.nvtx_marks(True)
    with mark("steps"), mark("float32"):
        pass
    assert marked == [("tfmp", "steps", "float32"), ("tfmp", "steps")]


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(nvtx_ranges, "find_spec", lambda name: None)
    assert nvtx_ranges.nvtx_marks(False)("steps")
    with pytest.raises(ValueError, match=r'need the package nvtx.*pip install "tfmp\[profile\]"'):
        nvtx_ranges.nvtx_marks(True)

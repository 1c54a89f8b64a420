"""The verdict that follows from evidence and a budget: PASS, FAIL or INCONCLUSIVE, and why."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

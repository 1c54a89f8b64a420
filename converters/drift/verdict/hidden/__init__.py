"""Checks of what an output's size hides: small values, shares, groups, differences, inner axes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""The drift report: its dataclasses, and renderings in JSON, HTML, Markdown and JUnit XML."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

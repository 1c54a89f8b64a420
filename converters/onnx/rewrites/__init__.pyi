from .pipeline import rewrite as rewrite

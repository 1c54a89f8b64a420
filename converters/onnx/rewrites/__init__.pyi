from .pipeline import rewrite as rewrite
from .scales import scale_down as scale_down

from .norms import restore_floors as restore_floors
from .pipeline import rewrite as rewrite
from .scales import scale_down as scale_down

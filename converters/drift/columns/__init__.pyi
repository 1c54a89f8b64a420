from .beside import differences as differences
from .measuring import distances_by_column as distances_by_column
from .places import OFF as OFF, Off as Off, Places as Places

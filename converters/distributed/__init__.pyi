from .cluster import check_address as check_address
from .driver import comparing as comparing

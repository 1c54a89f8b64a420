from .cluster import check_address as check_address
from .driver import comparing_on_ray as comparing_on_ray

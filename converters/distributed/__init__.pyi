from .cluster import (
    check_address as check_address,
    check_workers as check_workers,
    connected as connected,
    resources as resources,
    staffing as staffing,
)
from .driver import validate_on_ray as validate_on_ray

from .mixed import Repair as Repair, find_islands as find_islands

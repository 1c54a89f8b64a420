from .mixed import Repair as Repair, find_islands as find_islands, search_batches as search_batches

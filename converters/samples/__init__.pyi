from .data import (
    DataReport as DataReport,
    Dataset as Dataset,
    add_hashes as add_hashes,
    open_data as open_data,
    synthetic as synthetic,
)

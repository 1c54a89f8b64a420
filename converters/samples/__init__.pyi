from .data import (
    SEARCH_SAMPLES as SEARCH_SAMPLES,
    DataReport as DataReport,
    Reading as Reading,
    SampleBatch as SampleBatch,
    Samples as Samples,
    merged_sizes as merged_sizes,
    whole_numbers as whole_numbers,
)
from .hashes import add_hashes as add_hashes
from .images import check_class_folders as check_class_folders
from .sequences import open_in_layout as open_in_layout
from .sized import of_sizes as of_sizes, sizes_text as sizes_text
from .sources import count_batch as count_batch
from .synthetic import made_up as made_up

from .report import Report as Report
from .sections import (
    VERDICTS as VERDICTS,
    Drawing as Drawing,
    Picture as Picture,
    Sample as Sample,
    Section as Section,
    Table as Table,
    framed_table as framed_table,
    page as page,
    table_of as table_of,
)

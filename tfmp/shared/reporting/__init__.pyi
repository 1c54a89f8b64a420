from .markdown import to_markdown as to_markdown
from .report import Report as Report
from .sections import (
    Command as Command,
    Drawing as Drawing,
    Picture as Picture,
    Sample as Sample,
    Section as Section,
    Table as Table,
    cell as cell,
    page as page,
    table_of as table_of,
)
from .terminal import print_section as print_section, print_table as print_table

from .bar import progress_bar as progress_bar
from .help import GroupedCommand as GroupedCommand
from .user_modules import (
    module_of_file as module_of_file,
    named_function as named_function,
    names_function as names_function,
)

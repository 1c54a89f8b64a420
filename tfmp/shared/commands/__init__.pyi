from .bar import progress_bar as progress_bar
from .help import GroupedCommand as GroupedCommand
from .user_modules import imported as imported, module_of_file as module_of_file

from .archive import (
    Archive as Archive,
    Config as Config,
    named_by_content as named_by_content,
    read_archive as read_archive,
)
from .reader import ModelFile as ModelFile, read_model as read_model
from .trust import LAMBDA as LAMBDA

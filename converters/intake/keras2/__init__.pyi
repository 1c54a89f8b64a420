from .archive import (
    Archive as Archive,
    Config as Config,
    named_by_content as named_by_content,
    read_archive as read_archive,
)
from .reader import (
    ModelFile as ModelFile,
    load_weights as load_weights,
    model_file as model_file,
    read_model as read_model,
)
from .trust import (
    LAMBDA as LAMBDA,
    SAVED_MODEL as SAVED_MODEL,
    vocabulary_file as vocabulary_file,
)

from .archive import (
    Archive as Archive,
    Config as Config,
    named_by_content as named_by_content,
    read_archive as read_archive,
    uncompiled as uncompiled,
)
from .reader import (
    ModelFile as ModelFile,
    gallery as gallery,
    hints_hidden as hints_hidden,
    load_weights as load_weights,
    model_file as model_file,
    read_model as read_model,
)

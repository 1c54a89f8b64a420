from .archive import (
    WEIGHTS as WEIGHTS,
    Archive as Archive,
    Config as Config,
    named_by_content as named_by_content,
    read_archive as read_archive,
    uncompiled as uncompiled,
)
from .reader import (
    gallery as gallery,
    hints_hidden as hints_hidden,
    load_weights as load_weights,
    notes_on as notes_on,
    read_model as read_model,
)

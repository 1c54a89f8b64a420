from .architectures import (
    LAMBDA as LAMBDA,
    REBUILT as REBUILT,
    SAVED_MODEL as SAVED_MODEL,
    code_in_architecture as code_in_architecture,
    parts_of as parts_of,
    unknown_object as unknown_object,
    vocabulary_file as vocabulary_file,
)
from .hdf5 import open_hdf5 as open_hdf5
from .saved_models import code_in_saved_model as code_in_saved_model

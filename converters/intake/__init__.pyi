from .custom_objects import CustomObjects as CustomObjects
from .float64 import Float64Model as Float64Model
from .hints import OutputHint as OutputHint
from .keras_files import texts_in as texts_in
from .keras_model import cut_behind as cut_behind, keras_forward as keras_forward
from .onnx_file import value_spec as value_spec
from .open import (
    KERAS_SUFFIXES as KERAS_SUFFIXES,
    ModelRequest as ModelRequest,
    is_open as is_open,
    open_source as open_source,
    path_of as path_of,
    request_of as request_of,
    with_loading as with_loading,
)
from .probing import probe as probe
from .saved.complex_numbers import (
    absolute_values as absolute_values,
    gives_complex as gives_complex,
)
from .saved.elementary import log1p as log1p
from .saved.fillings import (
    FILLINGS as FILLINGS,
    filling as filling,
    fillings_in as fillings_in,
    sign_bit as sign_bit,
)
from .saved.graph import (
    Chain as Chain,
    Edits as Edits,
    Filling as Filling,
    Fillings as Fillings,
    Gap as Gap,
    Graph as Graph,
    Node as Node,
    Rewrite as Rewrite,
)
from .saved.onnx_forms import ONNX_FORMS as ONNX_FORMS
from .saved.spectra import by_tables as by_tables, spectra as spectra
from .sizes import Sizes as Sizes
from .source import (
    AnySource as AnySource,
    OnnxSource as OnnxSource,
    Origin as Origin,
    Source as Source,
    file_sha256 as file_sha256,
    name_of as name_of,
)
from .trust.names import reached as reached

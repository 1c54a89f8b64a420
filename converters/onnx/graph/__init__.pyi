from .building import (
    converted as converted,
    new_cast as new_cast,
    new_constant as new_constant,
)
from .constants import (
    ConstantFacts as ConstantFacts,
    constant_facts as constant_facts,
    stores_narrow as stores_narrow,
)
from .faults import (
    FAULTY_OPTIMIZER as FAULTY_OPTIMIZER,
    fault_of as fault_of,
    moves_first_axis as moves_first_axis,
)
from .matching import (
    Pattern as Pattern,
    Reduction as Reduction,
    array_of as array_of,
    is_number as is_number,
    name_of as name_of,
    number_of as number_of,
    operands as operands,
    private as private,
    reduction_of as reduction_of,
    static as static,
    where as where,
    with_constant as with_constant,
)
from .node_facts import (
    PRODUCTS as PRODUCTS,
    NotStaticError as NotStaticError,
    depth_of as depth_of,
    node_matcher as node_matcher,
    operand as operand,
    optional as optional,
    rank_of as rank_of,
    size_of as size_of,
    sizes_from as sizes_from,
)
from .schema import (
    BF16 as BF16,
    EXACT as EXACT,
    FP16 as FP16,
    FP32 as FP32,
    HALVES as HALVES,
    MOVERS as MOVERS,
    Slots as Slots,
    contains_floats as contains_floats,
    is_float as is_float,
    is_half as is_half,
    reads_any as reads_any,
    retype as retype,
    slots as slots,
)
from .storage import (
    Run as Run,
    external_files as external_files,
    open_once as open_once,
    open_session as open_session,
    save_checked as save_checked,
)
from .traversal import (
    UniqueNames as UniqueNames,
    bodies_of as bodies_of,
    name_nodes as name_nodes,
    nodes_of as nodes_of,
    remove_unused as remove_unused,
)
from .types import (
    infer_types as infer_types,
    light_proto as light_proto,
)
from .widening import (
    widen as widen,
    widen_attributes as widen_attributes,
    widen_constants as widen_constants,
)

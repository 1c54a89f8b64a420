"""Names for objects of TensorFlow, Keras and ONNX Runtime; for tensors see `tfmp.shared.backend`.

Frameworks load inside the functions that need them, and type checkers do not look into them: for
both, these names are `Any`. For a reader they name the kind of a value.
"""

from typing import Any, TypeAlias

# A `tf.Variable`, or a `keras.Variable`.
Variable: TypeAlias = Any

# A function that TensorFlow has traced, with `graph`, `inputs`, `outputs` and `variables`: a
# `WrappedFunction` or a `ConcreteFunction`.
TracedFunction: TypeAlias = Any

# Messages of graph.proto, node_def.proto and attr_value.proto.
GraphDef: TypeAlias = Any
NodeDef: TypeAlias = Any
AttrValue: TypeAlias = Any

# Messages of meta_graph.proto and saved_model.proto.
MetaGraphDef: TypeAlias = Any
SavedModelProto: TypeAlias = Any

# A `tf.function`, which has no shapes before it is traced, or a function that was traced.
TfFunction: TypeAlias = Any

# A `keras.Model`, and a `keras.Layer` in it.
KerasModel: TypeAlias = Any
KerasLayer: TypeAlias = Any

# An `onnxruntime.InferenceSession`, and what it says of one input or output.
OrtSession: TypeAlias = Any
NodeArg: TypeAlias = Any

"""Transposes in front of products, which ONNX Runtime's optimizer does not survive in FP16."""

from tfmp.converters.onnx.graph import Pattern, moves_first_axis, rank_of


def move_transposes(pattern: Pattern) -> None:
    """Moves a Transpose of the batch axes behind a product with a matrix: the same numbers.

    See `graph.faults`. Recurrent layers that take the batch first are written with one.
    """
    for node in pattern.nodes("MatMul"):
        transpose = pattern.made_by(node.inputs[0], "Transpose")
        if transpose is None or not moves_first_axis(transpose):
            continue
        order = transpose.attributes.get_ints("perm", [])
        value, matrix = transpose.inputs[0], node.inputs[1]
        # A product with a matrix keeps all axes but the last one in their places.
        if value is None or matrix is None or rank_of(matrix) != 2 or order[-1] != len(order) - 1:
            continue
        product = pattern.add(node, "MatMul", [value, matrix], "before", None)
        turned = pattern.add(node, "Transpose", [product], "behind", None, perm=order)
        pattern.replace(
            node.outputs[0],
            turned,
            "the Transpose before it moved behind it: ONNX Runtime crashes on the other order in "
            "FP16",
        )

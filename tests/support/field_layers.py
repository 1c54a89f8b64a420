"""ONNX models of many layers, a few of which need float32: which are they?"""

import onnx
from field_case import FieldCase, normal, weights
from onnx_graphs import parse

_BLOCKS = 12
_GATED = 7  # counted from 0


def deep_stack() -> onnx.ModelProto:
    """Residual blocks that keep within [-1, 1], but for one whose product passes 65,504."""
    lines, shapes = [], {"head": (32, 6)}
    for block in range(_BLOCKS):
        x = "tokens" if block == 0 else f"x{block - 1}"
        shapes[f"w{block}"] = (32, 32)
        lines.append(f"a{block} = MatMul({x}, w{block})")
        if block == _GATED:
            lines.append(f"g{block} = Mul(a{block}, gain)")
            lines.append(f"p{block} = Mul(g{block}, g{block})")
            lines.append(f"d{block} = Mul(p{block}, small)")
            lines.append(f"t{block} = Tanh(d{block})")
        else:
            lines.append(f"t{block} = Tanh(a{block})")
        lines.append(f"x{block} = Add({x}, t{block})")
    body = "\n".join([*lines, f"classes = MatMul(x{_BLOCKS - 1}, head)"])
    return parse(
        f"""
        agraph (float[N, 8, 32] tokens) => (float[N, 8, 6] classes)
        <float gain = {{400}}, float small = {{1e-6}}> {{
            {body}
        }}
        """,
        **weights(41, **shapes),
    )


CASES = [
    FieldCase(
        "NVIDIA/TensorRT#4616",
        "`polygraphy debug precision` does not tell which nodes need FP32",
        "FAIL PASS",
        deep_stack,
        normal("tokens", 8, 32),
        samples=640,
    ),
]

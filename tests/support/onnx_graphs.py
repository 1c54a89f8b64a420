"""Hand-written ONNX graphs, and running them in FP32, FP16 and emulated FP16."""

import re
from itertools import count

import numpy as np
import onnx
import onnx_ir as ir

from tfmp.converters.onnx.emulation.emulate import emulated
from tfmp.converters.onnx.emulation.profiles import Profile
from tfmp.converters.onnx.fp16.report import Fp16Report
from tfmp.converters.onnx.fp16.rewriter import prepare, to_fp16
from tfmp.converters.onnx.rewrites.pipeline import rewrite
from tfmp.converters.runners import OnnxRunner
from tfmp.converters.shared.tensors import Batch

HEADER = '<ir_version: 9, opset_import: ["" : 18{extra}]>\n'


# A normalization whose variance FP16 cannot hold.
VARIANCE = """
agraph (float[N, 1024] x) => (float[N, 1024] y)
<float scale = {300}, float eps = {0.001}, int64[1] axis = {1}> {
    s = Mul(x, scale)
    d = Sub(s, ReduceMean(s, axis))
    y = Div(d, Sqrt(Add(ReduceMean(Mul(d, d), axis), eps)))
}
"""

# Branches that capture values from outside; one of them gives what the graph was given.
IF = """
agraph (float[N, 4] x, bool flag) => (float[N, 4] y)
<float[4] c = {1, 2, 3, 4}> {
    h = Exp(x)
    b = If (flag) <
        then_branch = yes () => (float[N, 4] t) { t = Mul(h, c) },
        else_branch = no () => (float[N, 4] e) { e = Identity(x) }
    >
    y = Neg(b)
}
"""


# A call among the operands of another, which has no calls among its own; and where a node begins.
INNER = re.compile(r"(?<=[(,])\s*(?P<call>[A-Z]\w+\s*(?:<[^<>{}]*>\s*)?\([^()]*\))")
BEGIN = re.compile(r"(?:\w+, )*\w+ = (?=[A-Z])")


def flat(text: str) -> str:
    """ONNX's text form, which has no expressions: each call inside another becomes a node."""
    numbers = count(1)
    while inner := INNER.search(text):
        name = f"inner{next(numbers)}"
        *_, begin = BEGIN.finditer(text[: inner.start()])
        node, before = text[begin.start() : inner.start("call")], text[: begin.start()]
        text = f"{before}{name} = {inner['call']} {node}{name}{text[inner.end() :]}"
    return text


def parse(
    text: str, extra: str = "", opset: int = 18, **initializers: np.ndarray
) -> onnx.ModelProto:
    """A model from ONNX's text form with calls in calls; `initializers` are added by name."""
    header = HEADER.replace("18", str(opset)).replace("{extra}", extra)
    model = onnx.parser.parse_model(header + flat(text))
    for name, array in initializers.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.checker.check_model(model, full_check=True)
    return model


def half(model: onnx.ModelProto, **options) -> tuple[onnx.ModelProto, Fp16Report]:
    """The FP16 model, checked in full, and the report."""
    converted, report = to_fp16(ir.from_proto(model), **options)
    proto = ir.to_proto(converted)
    onnx.checker.check_model(proto, full_check=True)
    onnx.shape_inference.infer_shapes(proto, check_type=True, strict_mode=True)
    return proto, report


def rewritten(model: onnx.ModelProto, **kept) -> tuple[onnx.ModelProto, list[str]]:
    """The model rewritten for FP16, still float32 and checked in full, and what was done."""
    copy = ir.from_proto(model)
    prepare(copy)
    done = rewrite(copy, **kept)
    changed = ir.to_proto(copy)
    onnx.checker.check_model(changed, full_check=True)
    return changed, done


def run(model: onnx.ModelProto, batch: Batch) -> Batch:
    return OnnxRunner(model.SerializeToString()).run(batch)


def run_emulated(model: onnx.ModelProto, batch: Batch, profile: str = "gpu") -> Batch:
    copy = ir.from_proto(model)
    prepare(copy)
    wide = ir.to_proto(emulated(copy, Profile.parse(profile)))
    onnx.checker.check_model(wide, full_check=True)
    return run(wide, batch)


def op_types(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def assert_close_in_fp16(model: onnx.ModelProto, batch: Batch, tolerance: float = 5e-3) -> None:
    """Converts, and compares both executions of the FP16 model with the float32 one."""
    expected = run(model, batch)
    converted, _ = half(model)
    assert [value.type for value in converted.graph.input] == [
        value.type for value in model.graph.input
    ]
    for received in (run(converted, batch), run_emulated(converted, batch)):
        assert list(received) == list(expected)
        for name, value in expected.items():
            assert received[name].dtype == value.dtype
            np.testing.assert_allclose(received[name], value, rtol=tolerance, atol=tolerance)


def weights(seed: int, **shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Weights by name, each scaled by its number of inputs."""
    generator = np.random.default_rng(seed)
    made = {}
    for name, shape in shapes.items():
        inputs = int(np.prod(shape[1:] if len(shape) == 4 else shape[:-1])) or 1
        made[name] = (generator.standard_normal(shape) / inputs**0.5).astype(np.float32)
    return made

"""What a failed conversion says."""

import pytest

from tfmp.converters.tflite.export.converter import explain_failure

LOCATION = (
    '<unknown>:0: error: loc(callsite(fused["{op}:", "{name}@__inference_wrapped_function_245"] at '
    'callsite(fused["StatefulPartitionedCall:", "StatefulPartitionedCall@__inference_s_3"]))): '
    "'tf.{op}' op is neither a custom op nor a flex op\n"
)


def test_flex_ops_come_with_every_layer_that_uses_them() -> None:
    text = (
        LOCATION.format(op="Foo", name="m_1/block_1/first_1/sub/Foo")
        + LOCATION.format(op="Foo", name="m_1/second_1/Foo_3")
        + LOCATION.format(op="Bar", name="m_1/Bar")
        + "Some ops are not supported by the native TFLite runtime\nTF Select ops: Bar, Foo\n"
    )
    assert explain_failure(text).startswith(
        "TFLite has no operator for Bar, Foo (layer block/first, second). Replace the layers that "
        "need it"
    )


@pytest.mark.parametrize(
    ("op", "onnx"), [("StringToHashBucketFast", False), ("InTopKV2", True), ("_FusedConv2D", True)]
)
def test_onnx_is_a_way_out_only_where_it_has_the_operator(op: str, onnx: bool) -> None:
    text = f"{LOCATION.format(op=op, name='m_1/a_1/b')}\nTF Select ops: {op}\n"
    assert ("tfmp-convert onnx" in explain_failure(text)) == onnx


def test_custom_ops_have_no_way_out_by_flex() -> None:
    message = explain_failure("Some ops in the model are custom ops\nCustom ops: Erfx\n")
    assert message == (
        "TFLite has no operator for Erfx. Replace the layers that need custom operators: "
        "LiteRT has none of them."
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<unknown>:0: note: x\nloc(3): error: type of return operand 0 differs\nmore", "type of"),
        ("Provided graph is empty.", "Provided graph is empty"),
        ("", "no reason given"),
        (
            "error: loc(3): operand #0 must be tensor of 32-bit float, but got 'tensor<1x16xi8>'",
            "it multiplies int8 values",
        ),
    ],
)
def test_other_failures_show_their_first_error(text: str, reason: str) -> None:
    assert explain_failure(text).startswith(f"TensorFlow's TFLite converter failed: {reason}")

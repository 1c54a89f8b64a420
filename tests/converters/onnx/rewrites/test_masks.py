"""Masks that FP16 cannot hold become ones that it can, and no result changes."""

import numpy as np
import pytest
from onnx_graphs import half, op_types, parse, rewritten, run, run_emulated

ADDED = """
agraph (float[N, 4] x, bool[N, 4] keep) => (float[N, 4] y)
<float one = {1}, float big = {-1e9}> {
    y = Softmax(Add(Mul(Sub(one, Cast <to = 1> (keep)), big), x))
}
"""

CHOSEN = """
agraph (float[N, 4] x, bool[N, 4] keep) => (float[N, 4] y)
<float[1] big = {-3e38}> { scores = Where(keep, x, big)  y = Softmax(scores) }
"""


def batch() -> dict[str, np.ndarray]:
    """Scores of every size that attention sees, and a row that is masked throughout."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((16, 4)) * 10.0 ** rng.integers(-2, 3, (16, 1))
    keep = rng.random((16, 4)) > 0.5
    keep[0] = False
    return {"x": x.astype(np.float32), "keep": keep}


# The flag's shape is changed between the cast and the product, so it has to be cast back.
RESHAPED = """
agraph (float[N, 4] x, bool[N, 4] keep) => (float[N, 4] y)
<float one = {1}, float big = {-1e9}, int64[1] axis = {0}> {
    offset = Mul(Sub(one, Squeeze(Unsqueeze(Cast <to = 1> (keep), axis), axis)), big)
    y = Softmax(Add(offset, x))
}
"""


@pytest.mark.parametrize(
    ("text", "end"),
    [
        (ADDED, ["Where", "Softmax"]),  # the boolean itself chooses where it has the shape
        (CHOSEN, ["Where", "Softmax"]),
        (RESHAPED, ["Cast", "Where", "Softmax"]),
    ],
)
def test_the_float32_results_stay_and_fp16_holds_them(text: str, end: list[str]):
    model, inputs = parse(text), batch()
    changed, done = rewritten(model)
    assert len(done) == 1
    assert op_types(changed)[-len(end) :] == end
    expected, received = (run(m, inputs)["y"] for m in (model, changed))
    # A row that is masked throughout has no right answer: float32 adds scores to -1e9 there,
    # which keeps only what is left of them at a spacing of 64.
    some = inputs["keep"].any(1)
    np.testing.assert_allclose(received[some], expected[some], rtol=1e-6, atol=1e-9)
    assert np.isfinite(received).all()
    converted, report = half(model)
    assert report.islands == ()
    assert report.notes()[0].startswith("rewritten: ")
    received = run_emulated(converted, inputs)["y"]
    assert np.isfinite(received).all()
    np.testing.assert_allclose(received[0], 0.25, rtol=1e-3)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("y = Softmax(", "y = Neg(", id="the number itself is read"),
        pytest.param("Cast <to = 1> (keep)", "Exp(x)", id="not a flag"),
        pytest.param("big = {-1e9}", "big = {1e9}", id="positive"),
        pytest.param("one = {1}", "one = {2}", id="not one minus a flag"),
    ],
)
def test_what_is_not_a_mask_stays(old: str, new: str):
    assert old in ADDED
    model = parse(ADDED.replace(old, new))
    changed, done = rewritten(model)
    assert done == []
    assert op_types(changed) == op_types(model)

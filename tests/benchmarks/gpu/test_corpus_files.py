"""benchmarks/gpu/corpus_files.py: what is written is what the other machine reads."""

import numpy as np
import onnx
import pytest
from onnx_graphs import parse
from repository import BENCHMARKS
from scripts import script

corpus_files = script(BENCHMARKS / "gpu" / "corpus_files.py")


def test_predictions_of_profiles_are_read_as_they_were_made(tmp_path):
    profiles = ["gpu", "tensorrt", "ort-cuda:1.31"]
    (entry,), left_out = corpus_files.write(tmp_path, ["probes"], profiles, ["cumsum"])
    assert left_out == []
    assert entry["same_as"] == {name: name if name != "tensorrt" else "gpu" for name in profiles}
    found = corpus_files.read_predicted(tmp_path, corpus_files.entries(tmp_path)["cumsum"])
    assert set(found) == {"reference", *profiles}
    batch, _ = corpus_files.read(tmp_path, entry)
    running = np.cumsum(batch["x"].astype(np.float64), axis=1)
    error = {name: np.abs(found[name]["y"] - running).max() for name in found}
    assert error["reference"] < error["gpu"] == error["tensorrt"] < error["ort-cuda:1.31"]


@pytest.fixture
def seeded() -> onnx.ModelProto:
    weights = np.random.default_rng(5).standard_normal((64, 128)).astype(np.float32)
    text = "agraph (float[N, 64] x) => (float[N, 128] y) { y = MatMul(x, w) }"
    return parse(text, w=weights)


def test_weights_of_a_seeded_model_stay_behind_and_are_drawn_again(seeded, tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        onnx.save(corpus_files.hollowed(seeded), tmp_path / name / "full.onnx")
    assert (tmp_path / "one" / "full.onnx").stat().st_size < 1000
    for name in ("one", "other"):
        corpus_files.complete(tmp_path / name)
    files = [(tmp_path / name / "half.onnx").read_bytes() for name in ("one", "other")]
    assert files[0] == files[1]
    model = onnx.load(tmp_path / "one" / "full.onnx")
    onnx.checker.check_model(model, full_check=True)
    drawn = onnx.numpy_helper.to_array(model.graph.initializer[0])
    assert drawn.std() == pytest.approx(1, rel=0.05)


def test_another_drawing_of_weights_is_noticed(seeded, tmp_path):
    hollow = corpus_files.hollowed(seeded)
    (told,) = hollow.metadata_props
    told.value = f"{told.value.split()[0]} 12345"
    onnx.save(hollow, tmp_path / "full.onnx")
    with pytest.raises(ValueError, match="draws other weights"):
        corpus_files.complete(tmp_path)

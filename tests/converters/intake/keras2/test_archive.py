"""Archives of Keras that are damaged are told in a sentence."""

import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies
from mutations import mutated

from tfmp.converters.intake.keras2 import read_archive
from tfmp.converters.shared.errors import InputError

CONFIG = json.dumps(
    {
        "class_name": "Sequential",
        "config": {"layers": [{"class_name": "Dense", "config": {"units": 2}}]},
        "compile_config": {"loss": "mse"},
    }
).encode()
METADATA = b'{"keras_version": "3.15.0", "date_saved": "2026-01-01"}'


def write(path: Path, config: bytes, metadata: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", config)
        archive.writestr("metadata.json", metadata)
    return path


@pytest.mark.parametrize("levels", [5_000, 100_000])
def test_one_that_is_nested_too_deeply(levels: int, tmp_path: Path):
    config = b'{"a":' * levels + b"1" + b"}" * levels
    with pytest.raises(InputError, match="nested too deeply to be read"):
        read_archive(write(tmp_path / "model.keras", config, METADATA))


@settings(derandomize=True, max_examples=150, deadline=None)
@given(seed=strategies.integers(0, 2**32), whole=strategies.booleans())
def test_damage_is_told_in_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, seed: int, whole: bool
):
    """Damage to the whole file, which checksums tell, and to what an archive holds."""
    path = tmp_path_factory.getbasetemp() / "damaged.keras"
    if whole:
        path.write_bytes(mutated(write(path, CONFIG, METADATA).read_bytes(), seed))
    else:
        write(path, mutated(CONFIG, seed), mutated(METADATA, seed))
    told = ""
    try:
        read_archive(path)
    except InputError as error:
        told = str(error)
    assert "\n" not in told

"""The frame of commands: mistakes, defects and results."""

import logging
import warnings
from pathlib import Path

import click
import onnx
import pytest

from tfmp.converters.commands.options import Asked, Shown
from tfmp.converters.commands.session import print_results, session
from tfmp.converters.report import Artifact, FileNotes

OPTIONS = Shown()


def test_click_s_own_ways_out_are_left_to_it():
    for error in (click.UsageError("no"), click.exceptions.Exit(3)):
        with pytest.raises(type(error)), session(OPTIONS):
            raise error


@pytest.mark.parametrize(
    ("name", "status", "told"),
    [
        ("onnxruntime.capi", 2, "Error: onnxruntime.capi cannot be loaded on this machine (libm"),
        ("tfmp.converters.nothing", 70, "This is a defect of tfmp-convert: please report it"),
    ],
)
def test_a_library_that_does_not_load_is_the_machines_fault(capsys, name, status, told):
    with pytest.raises(SystemExit) as ended, session(OPTIONS):
        raise ImportError("libm.so.6: cannot open shared object file", name=name)
    assert ended.value.code == status
    assert told in capsys.readouterr().err


def test_notes_and_names_are_shown_plainly(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a[").mkdir()
    path = Path("a[/x]\x1b]0;evil\x07:cat:.onnx")
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([], "empty", [], [])), path)
    # Neither Rich's markup nor a terminal's escape sequences; sentences that are alike once.
    notes = ("of \x1b[2J[bold]x", *(f"kept in FP32: Exp in layer {i}" for i in range(16)))
    artifact = Artifact(path, "onnx", "fp16", 10, "ab", FileNotes(notes))
    print_results(None, [artifact], Asked(), Shown())
    told = capsys.readouterr().out
    assert r"a[/x]\x1b]0;evil\x07:cat:.onnx" in told
    assert r"of \x1b[2J[bold]x" in told
    assert (told.count("kept in FP32"), "and 15 notes more" in told) == (1, True)


def test_hints_of_tensorflow_do_not_precede_a_message(caplog):
    logger = logging.getLogger("tensorflow")
    before = logger.level
    logger.addHandler(caplog.handler)  # TensorFlow's logger hands nothing on
    try:
        with session(OPTIONS):
            logger.warning("From math_ops.py:3703: sparse_mat_mul is deprecated")
            logger.error("no table")
    finally:
        logger.removeHandler(caplog.handler)
    assert "deprecated" not in caplog.text
    assert "no table" in caplog.text
    assert logger.level == before


@pytest.mark.parametrize(
    ("module", "told"),
    [("keras.src.layers.core.dense", []), ("tf_keras.src.engine", []), ("mine", ["no axis"])],
)
def test_hints_of_keras_do_not_precede_a_message(module, told, recwarn):
    with session(OPTIONS):
        warnings.warn_explicit("no axis", UserWarning, f"{module}.py", 107, module=module)
    assert [str(warning.message) for warning in recwarn] == told

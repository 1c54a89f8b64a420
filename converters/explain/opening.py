"""How a candidate is opened for an explanation."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tfmp.converters.explain.candidate import Candidate
from tfmp.converters.intake import AnySource
from tfmp.converters.onnx.emulation import Profile
from tfmp.converters.runners import RunnerInfo


def opener(
    path: Path, info: RunnerInfo, source: AnySource, profile: Profile, stack: ExitStack
) -> Callable[[], Candidate] | None:
    """What opens a candidate, once it is known that it is to be explained.

    Args:
        path: of the candidate.
        info: what it was run by.
        source: the reference.
        profile: of the FP16 hardware that ONNX files are emulated for.
        stack: holds what is opened.

    Returns:
        None for a file that computes in FP32.
    """
    if info.fp16 is None:
        return None

    def onnx() -> Candidate:
        from tfmp.converters.explain.onnx_candidate import OnnxCandidate

        return OnnxCandidate(path, profile, source)

    def tflite() -> Candidate:
        from tfmp.converters.explain.tflite_candidate import TFLiteCandidate

        return TFLiteCandidate(path, source, stack)

    return tflite if path.suffix.lower() == ".tflite" else onnx

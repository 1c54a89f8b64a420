"""Providers: which come up on this machine, and reasons as ONNX Runtime 1.26 logs them."""

import subprocess

from tfmp.machine import onnx_providers
from tfmp.machine.onnx_providers import parse_providers, read_providers

# A build for CUDA on a machine without CUDA's libraries.
ANSWERS = """[\"CUDAExecutionProvider\", false]
[\"CPUExecutionProvider\", true]
"""
LOG = (
    "2026-11-20 15:45:06.828 [E:onnxruntime:Default, provider_bridge_ort.cc:2369 "
    "TryGetProviderInfo_CUDA] provider_bridge_ort.cc:1962 onnxruntime::ProviderLibrary::Get() "
    "[ONNXRuntimeError] : 1 : FAIL : Failed to load library "
    "/site-packages/onnxruntime/capi/libonnxruntime_providers_cuda.so with error: "
    "libcublasLt.so.12: cannot open shared object file: No such file or directory\n"
)


def test_the_reason_is_the_library_that_is_missing():
    assert parse_providers(ANSWERS, LOG) == {
        "CUDAExecutionProvider": (
            "libcublasLt.so.12: cannot open shared object file: No such file or directory"
        ),
        "CPUExecutionProvider": "",
    }


def test_without_a_word_in_the_log():
    assert parse_providers(ANSWERS, "")["CUDAExecutionProvider"] == "it does not start"


def test_a_runtime_that_does_not_start_has_none(monkeypatch):
    assert parse_providers("", "ImportError: No module named onnxruntime") == {}

    def hang(*arguments, **options):
        raise subprocess.TimeoutExpired("python", 60)

    monkeypatch.setattr(onnx_providers.subprocess, "run", hang)
    assert read_providers() == {}

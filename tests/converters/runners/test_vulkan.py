"""Finding a Vulkan adapter, and saying so when there is none."""

import json
import os
import sys
from pathlib import Path

import pytest

from tfmp.converters.runners import vulkan
from tfmp.converters.runners.vulkan import Adapter, Vulkan, find_vulkan
from tfmp.converters.shared.errors import MachineError

SWIFTSHADER = next(vulkan._software_homes(), None)


def test_without_any_driver_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vulkan, "_ways", lambda folder: iter([("libno-such-loader.so", {})]))
    with pytest.raises(MachineError, match=r"neither a GPU driver nor SwiftShader\. Install the"):
        find_vulkan().__enter__()


def test_elsewhere_than_on_linux_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(MachineError, match="Vulkan on Linux; this is darwin"):
        find_vulkan().__enter__()


def test_hardware_goes_before_software(monkeypatch: pytest.MonkeyPatch) -> None:
    def probe(loader: str, environment: dict[str, str]) -> Vulkan:
        kind = {"a": "CPU", "b": "discrete GPU", "c": "integrated GPU"}[loader]
        return Vulkan(Adapter(loader, kind, kind != "CPU"), loader, environment)

    monkeypatch.setattr(vulkan, "_probe", probe)
    monkeypatch.setattr(vulkan, "_ways", lambda folder: iter([("a", {}), ("b", {}), ("c", {})]))
    monkeypatch.setattr(sys, "platform", "linux")
    with find_vulkan() as found:
        assert str(found.adapter) == "b (discrete GPU)"
        assert not found.adapter.software
    assert str(Adapter("SwiftShader", "CPU", False)) == "SwiftShader (software)"


def test_the_manifest_names_the_driver_absolutely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "libvk_swiftshader.so").touch()
    monkeypatch.setattr(vulkan, "_CHROMIUM_FOLDERS", (str(tmp_path / "home"),))
    _, (loader, environment) = vulkan._ways(tmp_path)
    assert loader == "libvulkan.so.1"  # none lies beside the driver
    manifest = json.loads(Path(environment["VK_DRIVER_FILES"]).read_text())
    assert manifest["ICD"]["library_path"] == str(tmp_path / "home" / "libvk_swiftshader.so")
    assert environment["VK_ICD_FILENAMES"] == environment["VK_DRIVER_FILES"]


@pytest.mark.skipif(SWIFTSHADER is None, reason="no Chromium with SwiftShader is installed")
def test_swiftshader_is_found_and_is_software_without_fp16(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    everything = vulkan._ways
    monkeypatch.setattr(vulkan, "_ways", lambda folder: list(everything(folder))[1:])
    with find_vulkan() as found:
        assert "SwiftShader" in found.adapter.name
        assert found.adapter.software
        assert not found.adapter.fp16
        assert os.path.exists(found.environment["VK_DRIVER_FILES"])
    assert not os.path.exists(found.environment["VK_DRIVER_FILES"])

"""Finding a Vulkan adapter, and saying so when there is none."""

import json
import os
import sys
from pathlib import Path

import pytest

from tfmp.converters.runners import litert, vulkan
from tfmp.converters.runners.vulkan import Adapter, Vulkan, find_vulkan
from tfmp.converters.shared.errors import MachineError

# What `Probe` told of machines with lavapipe (Debian 12) and SwiftShader, and of made-up ones with
# a GPU: name, kind and FP16 of the adapter behind each loader, and the adapters that LiteRT takes.
RECORDED = json.loads(
    Path(__file__).parents[2].joinpath("support/recorded/vulkan_adapters.json").read_text()
)

SWIFTSHADER = next(vulkan._software_homes(), None)


def test_without_any_driver_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vulkan, "_ways", lambda folder: iter([("libno-such-loader.so", {})]))
    with pytest.raises(MachineError, match=r"neither a GPU driver nor SwiftShader\. Install the"):
        find_vulkan(no_runtime).__enter__()


def test_elsewhere_than_on_linux_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(MachineError, match="Vulkan on Linux; this is darwin"):
        find_vulkan(no_runtime).__enter__()


def no_runtime(vulkan: Vulkan) -> bool:
    pytest.fail("one adapter, or none, leaves no choice to ask about")


@pytest.mark.parametrize("machine", RECORDED, ids=lambda machine: machine["name"])
def test_the_adapter_is_one_that_the_runtime_takes(
    machine: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = {loader: Adapter(*told) for loader, told in machine["adapters"].items()}
    asked = []

    def takes(vulkan: Vulkan) -> bool:
        asked.append(vulkan.adapter.name)
        return vulkan.adapter.name in machine["taken"]

    monkeypatch.setattr(vulkan, "_ways", lambda folder: iter((loader, {}) for loader in ways))
    monkeypatch.setattr(vulkan, "_probe", lambda loader, env: Vulkan(ways[loader], loader, env))
    monkeypatch.setattr(sys, "platform", "linux")
    with find_vulkan(takes) as found:
        assert found.adapter.name == machine["chosen"]
    assert asked == machine["asked"]


def test_an_adapter_is_tried_once_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def check(vulkan: Vulkan) -> None:
        tried.append(vulkan.adapter.name)
        if vulkan.adapter.name == "llvmpipe":
            raise MachineError("No adapters found")

    monkeypatch.setattr(litert, "_taken", {})
    monkeypatch.setattr(litert, "_check_vulkan", check)
    both = [Vulkan(Adapter(name, "CPU", True), "loader", {}) for name in ("llvmpipe", "Swift")]
    for _ in range(3):
        assert list(map(litert._takes, both)) == [False, True]
    assert tried == ["llvmpipe", "Swift"]


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
    with find_vulkan(no_runtime) as found:
        assert "SwiftShader" in found.adapter.name
        assert found.adapter.software
        assert not found.adapter.fp16
        assert os.path.exists(found.environment["VK_DRIVER_FILES"])
    assert not os.path.exists(found.environment["VK_DRIVER_FILES"])

"""Finds the Vulkan adapter that LiteRT's GPU backend would compute on, and its abilities.

LiteRT reaches GPUs on Linux through WebGPU and Vulkan, and says neither which adapter it took nor
whether that computes in FP16. The Vulkan loader is asked directly, in a worker process: drivers
are native code that may crash.
"""

import ctypes
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tfmp.converters.shared.errors import MachineError, RunnerError
from tfmp.converters.shared.worker import Worker
from tfmp.shared.atomic_file import temporary_folder

LOADER = "libvulkan.so.1"

# SwiftShader, Vulkan in software, comes with every Chromium, and a loader beside it.
_SWIFTSHADER = "libvk_swiftshader.so"
_CHROMIUM_FOLDERS = (
    "/usr/lib/chromium",
    "/usr/lib/chromium-browser",
    "/usr/lib64/chromium-browser",
    "/opt/google/chrome",
)
_PROBE_TIMEOUT_S = 60.0

# VkPhysicalDeviceType and VkStructureType of the Vulkan 1.3 specification.
_KINDS = {1: "integrated GPU", 2: "discrete GPU", 3: "virtual GPU", 4: "CPU"}
_PREFERENCE = ("discrete GPU", "integrated GPU", "virtual GPU", "other", "CPU")
_APPLICATION_INFO = 0
_INSTANCE_CREATE_INFO = 1
_FEATURES_2 = 1000059000
_FLOAT16_INT8_FEATURES = 1000082000
_VERSION_1_1 = (1 << 22) | (1 << 12)
# VkPhysicalDeviceProperties is 824 bytes, VkPhysicalDeviceFeatures 55 numbers of 4.
_PROPERTIES_BYTES = 4096
_FEATURES_COUNT = 55


@dataclass(frozen=True)
class Adapter:
    """A Vulkan device.

    Attributes:
        name: name that its driver gives.
        kind: "discrete GPU", "integrated GPU", "virtual GPU", "CPU" or "other".
        fp16: whether its shaders have FP16 arithmetic.
    """

    name: str
    kind: str
    fp16: bool

    @property
    def software(self) -> bool:
        """Whether the adapter is software on a CPU."""
        return self.kind == "CPU"

    def __str__(self) -> str:
        return f"{self.name} ({'software' if self.software else self.kind})"


@dataclass(frozen=True)
class Vulkan:
    """A way to an adapter.

    Attributes:
        adapter: the adapter that LiteRT takes.
        loader: path or name of the Vulkan loader.
        environment: variables that make the loader find the driver.
    """

    adapter: Adapter
    loader: str
    environment: dict[str, str]


@contextmanager
def find_vulkan(takes: Callable[[Vulkan], bool]) -> Iterator[Vulkan]:
    """The way to the best adapter that a runtime takes: a GPU's own driver, else one in software.

    An adapter that is there may be one that a runtime refuses: most desktops have Mesa's lavapipe,
    and LiteRT does not take the one of Debian 12 (22.3).

    Args:
        takes: whether the runtime computes on an adapter. It is asked where there are several; if
            it takes none of them, the best one is given, and the runtime's own words tell why.

    Raises:
        MachineError: there is no adapter; the text says which packages to install.
    """
    if sys.platform != "linux":
        raise MachineError(
            f"the LiteRT GPU runner reaches GPUs through Vulkan on Linux; this is {sys.platform}."
        )
    with temporary_folder() as folder:
        found = [vulkan for way in _ways(folder) if (vulkan := _probe(*way))]
        if not found:
            raise MachineError(
                "no Vulkan adapter was found: neither a GPU driver nor SwiftShader. Install the "
                f"GPU's Vulkan driver and {LOADER} (Debian: libvulkan1), or chromium for "
                "SwiftShader."
            )
        found.sort(key=lambda vulkan: _PREFERENCE.index(vulkan.adapter.kind))
        yield next(filter(takes, found), found[0]) if len(found) > 1 else found[0]


def _ways(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Loaders, and the environment to start them in."""
    yield LOADER, {}
    for home in _software_homes():
        manifest = folder / "swiftshader_icd.json"
        # Chromium's own manifest has a relative path, which its loader does not resolve.
        library = {"library_path": str(home / _SWIFTSHADER), "api_version": "1.1.0"}
        manifest.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": library}))
        # The second name is what loaders before 1.3.207 know.
        environment = dict.fromkeys(("VK_DRIVER_FILES", "VK_ICD_FILENAMES"), str(manifest))
        beside = home / LOADER
        yield str(beside) if beside.exists() else LOADER, environment
        return


def _software_homes() -> Iterator[Path]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    beside = [os.path.dirname(os.path.realpath(program))] if program else []
    for folder in (*_CHROMIUM_FOLDERS, *beside):
        if (Path(folder) / _SWIFTSHADER).exists():
            yield Path(folder)


def _probe(loader: str, environment: dict[str, str]) -> Vulkan | None:
    """The best adapter on this way, or None when it leads nowhere."""
    try:
        with Worker(
            "tfmp.converters.runners.vulkan:Probe",
            loader,
            label="Vulkan",
            timeout_s=_PROBE_TIMEOUT_S,
            environment=environment,
        ) as worker:
            adapters: list[Adapter] = worker.call("adapters")
    except RunnerError:
        return None  # no such loader, no driver, or one that crashes: as good as none
    if not adapters:
        return None
    best = min(adapters, key=lambda adapter: _PREFERENCE.index(adapter.kind))
    return Vulkan(best, loader, environment)


class _ApplicationInfo(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_uint32),
        ("next", ctypes.c_void_p),
        ("application", ctypes.c_char_p),
        ("application_version", ctypes.c_uint32),
        ("engine", ctypes.c_char_p),
        ("engine_version", ctypes.c_uint32),
        ("api_version", ctypes.c_uint32),
    )


class _InstanceCreateInfo(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_uint32),
        ("next", ctypes.c_void_p),
        ("flags", ctypes.c_uint32),
        ("application", ctypes.POINTER(_ApplicationInfo)),
        ("layer_count", ctypes.c_uint32),
        ("layers", ctypes.c_void_p),
        ("extension_count", ctypes.c_uint32),
        ("extensions", ctypes.c_void_p),
    )


class _Float16Features(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_uint32),
        ("next", ctypes.c_void_p),
        ("float16", ctypes.c_uint32),
        ("int8", ctypes.c_uint32),
    )


class _Features2(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_uint32),
        ("next", ctypes.c_void_p),
        ("features", ctypes.c_uint32 * _FEATURES_COUNT),
    )


class Probe:
    """Asks a Vulkan loader for its adapters; the object that a `Worker` holds."""

    def __init__(self, loader: str) -> None:
        self._library = ctypes.CDLL(loader)

    def adapters(self) -> list[Adapter]:
        """All devices of all drivers that the loader finds."""
        application = _ApplicationInfo(type=_APPLICATION_INFO, api_version=_VERSION_1_1)
        create = _InstanceCreateInfo(
            type=_INSTANCE_CREATE_INFO, application=ctypes.pointer(application)
        )
        instance = ctypes.c_void_p()
        self._call("vkCreateInstance", ctypes.byref(create), None, ctypes.byref(instance))
        count = ctypes.c_uint32()
        self._call("vkEnumeratePhysicalDevices", instance, ctypes.byref(count), None)
        devices = (ctypes.c_void_p * count.value)()
        self._call("vkEnumeratePhysicalDevices", instance, ctypes.byref(count), devices)
        return [self._adapter(device) for device in devices if device is not None]

    def _call(self, function: str, *arguments: object) -> None:
        status = getattr(self._library, function)(*arguments)
        if status < 0:
            raise RunnerError(f"{function} failed with Vulkan's status {status}.")

    def _adapter(self, device: int) -> Adapter:
        handle = ctypes.c_void_p(device)
        properties = ctypes.create_string_buffer(_PROPERTIES_BYTES)
        self._library.vkGetPhysicalDeviceProperties(handle, properties)
        # Four numbers, then deviceType and char deviceName[256].
        kind = int.from_bytes(properties.raw[16:20], sys.byteorder)
        name = properties.raw[20:276].split(b"\0")[0].decode(errors="replace")
        float16 = _Float16Features(type=_FLOAT16_INT8_FEATURES)
        features = _Features2(
            type=_FEATURES_2, next=ctypes.cast(ctypes.pointer(float16), ctypes.c_void_p)
        )
        self._library.vkGetPhysicalDeviceFeatures2(handle, ctypes.byref(features))
        return Adapter(name, _KINDS.get(kind, "other"), bool(float16.float16))

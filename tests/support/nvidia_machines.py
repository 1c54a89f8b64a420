"""What `nvidia-smi` prints on machines of several kinds, in the driver's own format.

Per machine: its banner, and the answers to the queries of `tfmp.nvidia`. UUIDs are shortened.
"""

from dataclasses import dataclass

from tfmp.nvidia import NvidiaFacts, parse_nvidia

_BANNER = (
    "+-----------------------------------------------------------------------------------------+\n"
    "| NVIDIA-SMI {driver}       Driver Version: {driver}     CUDA Version: {cuda}     |\n"
    "|-----------------------------------------+------------------------+----------------------+\n"
)


@dataclass(frozen=True)
class Recorded:
    """One machine's answers."""

    banner: str
    cards: str
    users: str = ""
    listing: str = ""

    def facts(self) -> NvidiaFacts:
        return parse_nvidia(self.banner, self.cards, self.users, self.listing)


V100 = Recorded(
    _BANNER.format(driver="470.57.02", cuda="11.4"),
    "0, Tesla V100-SXM2-16GB, 470.57.02, 7.0, 16160, 0, [N/A]\n",
    listing="GPU 0: Tesla V100-SXM2-16GB (UUID: GPU-5f3e)\n",
)
T4 = Recorded(
    _BANNER.format(driver="550.54.15", cuda="12.4"),
    "0, Tesla T4, 550.54.15, 7.5, 15360, 3, [N/A]\n",
    listing="GPU 0: Tesla T4 (UUID: GPU-0a1b)\n",
)
GTX_1660 = Recorded(
    _BANNER.format(driver="535.183.01", cuda="12.2"),
    "0, NVIDIA GeForce GTX 1660 Ti, 535.183.01, 7.5, 6144, 4211, [N/A]\n",
    users="1893, /usr/bin/python3, 3870\n2204, C:\\Games\\a, b\\game.exe, [N/A]\n",
    listing="GPU 0: NVIDIA GeForce GTX 1660 Ti (UUID: GPU-77aa)\n",
)
A100_MIG = Recorded(
    _BANNER.format(driver="535.104.05", cuda="12.2"),
    "0, NVIDIA A100-SXM4-40GB, 535.104.05, 8.0, 40960, 88, Enabled\n"
    "1, NVIDIA A100-SXM4-40GB, 535.104.05, 8.0, 40960, 4, Disabled\n",
    listing=(
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1111)\n"
        "  MIG 3g.20gb     Device  0: (UUID: MIG-aaaa)\n"
        "  MIG 1g.5gb      Device  1: (UUID: MIG-bbbb)\n"
        "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-2222)\n"
    ),
)
A100_MIG_WITHOUT_INSTANCES = Recorded(
    A100_MIG.banner, A100_MIG.cards, listing="GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1111)\n"
)
H100 = Recorded(
    _BANNER.format(driver="580.65.06", cuda="13.0"),
    "0, NVIDIA H100 80GB HBM3, 580.65.06, 9.0, 81559, 61, Disabled\n",
    listing="GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-9c9c)\n",
)
# Drivers before 2021 do not know compute_cap and print an error for the whole query.
OLD_DRIVER = Recorded(_BANNER.format(driver="440.33.01", cuda="10.2"), "")
NONE = Recorded("", "")

"""What an imported topology is made of beyond what its file says: GPU models and link types of buses.

A matrix or a dump names neither the bus between sockets nor the memory. What stands in for them is written into the
imported file's head as assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from simgpu.hardware.gpu import Gpu, gpu, gpu_names
from simgpu.hardware.link_type import LinkType, link_type

# Device ids of vendor 10de (pciids/pciids pci.ids).
_MODEL_OF_DEVICE: Final[Mapping[str, str]] = {
    "0x15f9": "P100-SXM2-16GB",
    "0x1db1": "V100-SXM2-16GB",
    "0x1db5": "V100-SXM2-32GB",
    "0x1db8": "V100-SXM3-32GB",
    "0x1db4": "V100-PCIe-16GB",
    "0x1db6": "V100-PCIe-32GB",
    "0x1eb8": "T4",
    "0x20b0": "A100-SXM4-40GB",
    "0x20b2": "A100-SXM4-80GB",
    "0x20f1": "A100-PCIe-40GB",
    "0x20b5": "A100-PCIe-80GB",
    "0x20f3": "A800-SXM4-80GB",
    "0x20b7": "A30",
    "0x2235": "A40",
    "0x2230": "RTX-A6000",
    "0x2204": "RTX-3090",
    "0x2684": "RTX-4090",
    "0x2b85": "RTX-5090",
    "0x27b8": "L4",
    "0x26b9": "L40S",
    "0x26b5": "L40",
    "0x26b1": "RTX-6000-Ada",
    "0x2330": "H100-SXM5-80GB",
    "0x2331": "H100-PCIe-80GB",
    "0x2321": "H100-NVL-94GB",
    "0x2324": "H800-SXM5-80GB",
    "0x2335": "H200-SXM5-141GB",
    "0x2329": "H20-96GB",
    "0x2901": "B200-SXM-180GB",
}
_NVLINK_TYPES: Final[Mapping[str, str]] = {
    "NVLink1": "NVLink1 link (P100)",
    "NVLink2": "NVLink2 link (V100)",
    "NVLink3": "NVLink3 link (A100)",
    "NVLink4": "NVLink4 link (H100/H200)",
    "NVLink5": "NVLink5 link (B200/GB200)",
}
# Bonds of a bridge between two PCIe cards whose rate was measured: (model prefix, links) to a row of links.csv.
_BRIDGES: Final[Mapping[tuple[str, int], str]] = {
    ("A100-PCIe", 12): "A100 PCIe NVLink bridge pair (12 links)",
    ("RTX-2080Ti", 2): "2080Ti bridge pair (2 links)",
}
_GA102: Final = "NVLink3 link (GA102: 3090/A6000/A40)"
_XGMI: Final[Mapping[str, str]] = {"CDNA3": "xGMI MI300X pair", "CDNA4": "xGMI MI355X pair"}
# Servers of the PCIe generation: what two sockets talk over and how a socket's memory is fitted.
_SOCKETS: Final[Mapping[int, str]] = {
    3: "QPI (Haswell/Broadwell)",
    4: "AMD Infinity Fabric socket link",
    5: "UPI Sapphire Rapids",
    6: "UPI Emerald Rapids",
}
_MEMORIES: Final[Mapping[int, str]] = {3: "DDR4-2400, 4 channels", 4: "DDR4-3200, 8 channels"}
_NEWER_MEMORY: Final = "DDR5-4800, 8 channels"


def model_of_device(device: str) -> str | None:
    """Name of the GPU of a PCI device id of NVIDIA's, None for an unlisted one.

    Parameters
    ----------
    device : str
        ``0x20b2``.

    Returns
    -------
    str or None

    Examples
    --------
    >>> model_of_device("0x20b2")
    'A100-SXM4-80GB'
    """
    return _MODEL_OF_DEVICE.get(device.lower())


def gpus_where(*, links: int = 0, switched: bool = False, capability: str | None = None) -> tuple[str, ...]:
    """Names of NVIDIA's GPUs that could be those of a file.

    Parameters
    ----------
    links : int
        NVLinks that one GPU must have at least, exactly where ``switched``.
    switched : bool
        Whether NVSwitches join them, as only modules on a baseboard are: V100 then is SXM3, of the DGX-2.
    capability : str, optional
        Compute capability, ``8.0``.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> gpus_where(links=6, switched=True)
    ('V100-SXM3-32GB',)
    """
    found = []
    for name in gpu_names():
        model = gpu(name)
        if model.form == "OAM" or (capability is not None and model.compute_capability != capability):
            continue
        if switched and (model.form == "PCIe" or model.form == "SXM2" or model.nvlink_count != links):
            continue
        if model.nvlink_count >= links:
            found.append(name)
    return tuple(found)


def nvlink_type(model: Gpu, count: int) -> tuple[str, int]:
    """Link type of a bond of NVLinks between two GPUs, and how many of it.

    Parameters
    ----------
    model : Gpu
    count : int
        Links in the bond.

    Returns
    -------
    tuple of str and int

    Examples
    --------
    >>> nvlink_type(gpu("H100-SXM5-80GB"), 18), nvlink_type(gpu("A100-PCIe-80GB"), 12)[1]
    (('NVLink4 link (H100/H200)', 18), 1)
    """
    for (prefix, links), name in _BRIDGES.items():
        if model.name.startswith(prefix) and links == count:
            return name, 1
    if model.arch in _XGMI:
        return _XGMI[model.arch], count
    if model.compute_capability == "8.6":
        return _GA102, count
    return _NVLINK_TYPES[model.nvlink.split()[0]], count


def pcie_type(generation: int) -> str:
    """Link type of 16 lanes of a PCIe generation.

    Parameters
    ----------
    generation : int

    Returns
    -------
    str

    Examples
    --------
    >>> pcie_type(5)
    'PCIe 5.0 x16'
    """
    return f"PCIe {generation}.0 x16"


def socket_type(generation: int) -> str:
    """Link type assumed between the sockets of a server with that PCIe generation.

    Parameters
    ----------
    generation : int

    Returns
    -------
    str

    Examples
    --------
    >>> socket_type(5)
    'UPI Sapphire Rapids'
    """
    return _SOCKETS[generation]


def memory_type(generation: int) -> LinkType:
    """Memory assumed at each socket of a server with that PCIe generation.

    Parameters
    ----------
    generation : int

    Returns
    -------
    LinkType

    Examples
    --------
    >>> memory_type(4).name
    'DDR4-3200, 8 channels'
    """
    return link_type(_MEMORIES.get(generation, _NEWER_MEMORY))

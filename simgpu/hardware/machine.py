"""A machine: the devices of one node and the links between them, as a topology file describes them.

The file's format::

    name: DGX A100
    description: one line for people            # optional
    devices:                                    # family: {kind, count (1), model (gpu) or type (nic)}
      gpu: {kind: gpu, count: 8, model: A100-SXM4-80GB}      # gpu0 ... gpu7
      nvswitch: {kind: nvswitch}                             # nvswitch0
      nic: {kind: nic, count: 8, type: IB HDR 200G}
    links:                                      # each is two directed links, one each way
      - {from: gpu, to: nvswitch, type: NVLink3 link (A100), count: 12}
      - {from: gpu 0-1, to: pcie 0, type: PCIe 4.0 x16}
    fabric: {kind: rail, nodes_per_leaf: 20, oversubscription: 1}

``from`` and ``to`` name a family (all of it), one device (``gpu 3``) or a range (``gpu 0-3``): as many on both
sides are joined pairwise, one on a side is joined to all of the other. ``count`` bundles parallel links, ``lanes``
narrows a 16-lane PCIe link, ``bandwidth_gb_per_s`` and ``latency_us`` replace the type's figures. NCCL's own start-up
already covers a type's latency; what ``latency_us`` is above it (or below) delays every transfer over the link.
``peer_access: false`` on a family of GPUs says that this host stages copies between them, and to and from NICs, in its
memory though the cards could do without (ACS on, IOMMU, a virtual machine); ``true`` that a patched driver allows it.
``size`` of a memory (``512 GiB``) lets reports say when offloaded states do not fit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from simgpu.hardware.gpu import Gpu, gpu
from simgpu.hardware.link_type import LinkType, link_type
from simgpu.hardware.reading import Bounds, Reading
from simgpu.units import parse_bandwidth, parse_bytes, parse_time

KINDS: Final = ("gpu", "cpu", "memory", "pcie_switch", "nvswitch", "nic")
_FAMILY = re.compile(r"[a-z][a-z_]*")
_SELECTION = re.compile(r"\s*([a-z][a-z_]*?)\s*(?:(\d+)(?:\s*-\s*(\d+))?)?\s*")
_LINK_FIELDS: Final = ("from", "to", "type", "count", "lanes", "bandwidth_gb_per_s", "latency_us")
# Beyond anything built, so more is a slip of the unit or of the keyboard (the fastest bundle is the 900 GB/s of one
# B200's NVLinks); slower than 1 MB/s or later than 10 s, and a step may leave the range of the clock.
_MOST_DEVICES: Final = 1024
_MOST_PARALLEL: Final = 1024
_MOST_GB_PER_S: Final = 100_000
_BANDWIDTHS: Final = Bounds(
    least=10**6, most=_MOST_GB_PER_S * 10**9, allowed=f"0.001 to {_MOST_GB_PER_S:,} GB/s (GB/s, not bytes)"
)
_SIZES: Final = Bounds(least=1 << 30, most=1 << 50, allowed="1 GiB to 1 PiB (a plain number is GiB)")
_LATENCIES: Final = Bounds(least=0, most=10 * 10**9, allowed="0 to 10 s (a plain number is microseconds)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device of a machine.

    Parameters
    ----------
    name : str
        Family and number, ``gpu3``.
    kind : str
        ``gpu``, ``cpu`` (with its host bridge), ``memory``, ``pcie_switch``, ``nvswitch`` or ``nic``.
    gpu : Gpu or None
        The model, of a GPU.
    peer_access : bool or None
        Of a GPU, whether this host lets it reach others over PCIe; None when as its model does.
    port : LinkType or None
        The network link, of a NIC.
    size_bytes : int or None
        Of a memory, where the file says.
    """

    name: str
    kind: str
    gpu: Gpu | None = None
    peer_access: bool | None = None
    port: LinkType | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """A directed link between two devices of a machine, given by their positions in it; ``type`` names its row."""

    source: int
    target: int
    kind: str
    type: str
    bytes_per_s: int
    nominal_bytes_per_s: int
    latency_ns: int
    added_latency_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One node.

    Parameters
    ----------
    name : str
    devices : tuple of Device
        In the order of the file.
    wires : tuple of Wire
        Directed links, the two directions of one link next to each other.
    gpus, nics : tuple of int
        Positions of the GPUs and of the NICs among the devices.
    """

    name: str
    devices: tuple[Device, ...]
    wires: tuple[Wire, ...]
    gpus: tuple[int, ...] = field(default=())
    nics: tuple[int, ...] = field(default=())


def read_machine(description: Mapping[str, Any], reading: Reading) -> Machine:
    """Read the devices and links of a topology description.

    Parameters
    ----------
    description : mapping
        As in a topology file; the format is in this module's documentation.
    reading : Reading
        Gets an issue for everything that is wrong.

    Returns
    -------
    Machine
        Complete only when ``reading`` has no issue.

    Examples
    --------
    >>> pair = {"name": "pair", "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}},
    ...         "links": [{"from": "gpu 0", "to": "gpu 1", "type": "GA102 bridge pair (3090/A6000)"}]}
    >>> [wire.bytes_per_s for wire in read_machine(pair, Reading(source="")).wires]
    [48000000000, 48000000000]
    """
    name = reading.text(description, "name", "", fix="name the machine")
    reading.text(description, "description", "")
    families: dict[str, list[int]] = {}
    devices: list[Device] = []
    listed = reading.mapping(description.get("devices", {}), "devices")
    for family, entry in listed.items():
        made = _devices(str(family), entry, reading)
        families[str(family)] = list(range(len(devices), len(devices) + len(made)))
        devices.extend(made)
    if not any(device.kind == "gpu" for device in devices):
        fix = "add a family such as 'gpu: {kind: gpu, count: 8, model: A100-SXM4-80GB}'"
        reading.problem("devices", "has no GPU", fix=fix)
    wires: list[Wire] = []
    joined: set[tuple[int, int]] = set()
    links = description.get("links", [])
    if not isinstance(links, list | tuple):
        reading.problem(
            "links", "is not a list", value=links, fix="write one '- {from: ..., to: ..., type: ...}' a line"
        )
        links = []
    for index, entry in enumerate(links):
        where = f"links[{index}]"
        for wire in _wires(entry, where, families, devices, reading):
            if (wire.source, wire.target) in joined:
                ends = f"{devices[wire.source].name} and {devices[wire.target].name}"
                reading.problem(where, f"joins {ends} once more", fix="give parallel links as one with a count")
            joined.add((wire.source, wire.target))
            wires.append(wire)
    return Machine(
        name=name,
        devices=tuple(devices),
        wires=tuple(wires),
        gpus=tuple(i for i, device in enumerate(devices) if device.kind == "gpu"),
        nics=tuple(i for i, device in enumerate(devices) if device.kind == "nic"),
    )


def _devices(family: str, entry: object, reading: Reading) -> list[Device]:
    where = f"devices.{family}"
    if not _FAMILY.fullmatch(family):
        reading.problem(where, "is no family name", allowed="small letters and underscores; numbers are added")
        return []
    if not isinstance(entry, Mapping):
        reading.problem(where, "is not a mapping", value=entry, fix="write {kind: ..., count: ...}")
        return []
    kind = reading.text(entry, "kind", where, fix=f"say which kind: {', '.join(KINDS)}")
    if not kind or not reading.choice(kind, f"{where}.kind", KINDS):
        return []
    extra = {"gpu": ("model", "peer_access"), "nic": ("type",), "memory": ("size",)}.get(kind, ())
    entry = reading.mapping(entry, where, ("kind", "count", *extra))
    count = reading.whole(entry, "count", where, default=1, most=_MOST_DEVICES)
    model: Gpu | None = None
    port: LinkType | None = None
    peer_access = entry.get("peer_access")
    if peer_access is not None and not isinstance(peer_access, bool):
        reading.problem(f"{where}.peer_access", "is neither true nor false", value=peer_access, allowed="true, false")
        peer_access = None
    if kind == "gpu":
        name = reading.text(entry, "model", where, fix="name the GPU, such as A100-SXM4-80GB")
        model = reading.lookup(partial(gpu, name), f"{where}.model") if name else None
    elif kind == "nic":
        name = reading.text(entry, "type", where, fix="name the port, such as IB NDR 400G")
        port = reading.lookup(partial(link_type, name, network=True), f"{where}.type") if name else None
    size = (
        reading.quantity(entry, "size", where, partial(parse_bytes, plain="GiB"), _SIZES) if kind == "memory" else None
    )
    found = Device(name=family, kind=kind, gpu=model, peer_access=peer_access, port=port, size_bytes=size)
    return [replace(found, name=f"{family}{i}") for i in range(count)]


def _wires(
    entry: object, where: str, families: Mapping[str, list[int]], devices: list[Device], reading: Reading
) -> list[Wire]:
    entry = reading.mapping(entry, where, _LINK_FIELDS)
    if not entry:
        return []
    ends = [_select(entry, side, where, families, reading) for side in ("from", "to")]
    name = reading.text(entry, "type", where, fix="name a link type, such as PCIe 4.0 x16")
    found = reading.lookup(partial(link_type, name), f"{where}.type") if name else None
    count = reading.whole(entry, "count", where, default=1, most=_MOST_PARALLEL)
    lanes = reading.whole(entry, "lanes", where, default=16, most=_MOST_PARALLEL)
    bandwidth = reading.quantity(entry, "bandwidth_gb_per_s", where, parse_bandwidth, _BANDWIDTHS)
    latency = reading.quantity(entry, "latency_us", where, partial(parse_time, plain="us"), _LATENCIES)
    if found is None or not all(ends):
        return []
    if found.nominal_bytes_per_s * count > _BANDWIDTHS.most:
        most = _BANDWIDTHS.most // found.nominal_bytes_per_s
        reading.problem(f"{where}.count", "is too large to be meant", value=count, allowed=f"1 to {most:,}")
    if lanes != 16 and (found.kind != "pcie" or lanes > 16):
        reading.problem(f"{where}.lanes", "does not fit the link type", value=lanes, allowed="1 to 16, of PCIe links")
    left, right = ends
    if len(left) == 1:
        left = left * len(right)
    elif len(right) == 1:
        right = right * len(left)
    if len(left) != len(right):
        fix = "name as many on both sides, or one device on one side"
        reading.problem(where, f"joins {len(left)} devices to {len(right)}", fix=fix)
        return []
    wires = []
    for a, b in zip(left, right, strict=True):
        if a == b:
            reading.problem(where, f"joins {devices[a].name} to itself", fix="name two devices")
        for source, target in ((a, b), (b, a)):
            wires.append(
                Wire(
                    source=source,
                    target=target,
                    kind=found.kind,
                    type=found.name,
                    bytes_per_s=bandwidth or found.bytes_per_s * count * lanes // 16,
                    nominal_bytes_per_s=found.nominal_bytes_per_s * count * lanes // 16,
                    latency_ns=found.latency_ns if latency is None else latency,
                    added_latency_ns=0 if latency is None else latency - found.latency_ns,
                )
            )
    return wires


def _select(
    entry: Mapping[str, Any], side: str, where: str, families: Mapping[str, list[int]], reading: Reading
) -> list[int]:
    """Devices that ``gpu``, ``gpu 3`` or ``gpu 0-3`` means."""
    text = reading.text(entry, side, where, fix="name a device, such as gpu 0")
    if not text:
        return []
    match = _SELECTION.fullmatch(text)
    family = families.get(match[1]) if match else None
    if match is None or family is None:
        have = ", ".join(families)
        reading.problem(
            f"{where}.{side}", "names no device", value=text, allowed=f"a family ({have}), or as in gpu 0-3"
        )
        return []
    if match[2] is None:
        return family
    first, last = int(match[2]), int(match[3] or match[2])
    if first > last or last >= len(family):
        reading.problem(f"{where}.{side}", "is out of range", value=text, allowed=f"{match[1]} 0-{len(family) - 1}")
        return []
    return family[first : last + 1]

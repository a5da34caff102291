"""Ports of NICs of an imported topology: as the user names them, or as the file gives their rate."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from simgpu.errors import Issue, ScenarioError, TopologyError
from simgpu.hardware.link_type import link_type

_RATE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:G|Gb|Gbit)?(?:/s)?\s*", re.IGNORECASE)
_INFINIBAND: Final[Mapping[int, str]] = {
    56: "FDR 56G",
    100: "EDR 100G",
    200: "HDR 200G",
    400: "NDR 400G",
    800: "XDR 800G",
}
_SLOW: Final[Mapping[int, str]] = {10: "TCP 10GbE (NCCL socket)", 25: "TCP 25GbE (NCCL socket)"}


def nic_type(text: str) -> str:
    """Link type of a NIC's port as ``--nic`` names it: a type, or a rate in Gb/s.

    Parameters
    ----------
    text : str
        A network type of ``simgpu/data/links.csv``, or such as ``200``, ``200G``, ``200 Gb/s``: InfiniBand from 56 Gb/s
        up, TCP below.

    Returns
    -------
    str

    Raises
    ------
    ScenarioError
        When it is neither.

    Examples
    --------
    >>> nic_type("200G"), nic_type("rocev2 100g")
    ('IB HDR 200G', 'RoCEv2 100G')
    """
    match = _RATE.fullmatch(text)
    rate = float(match[1]) if match else 0.0
    if rate in _INFINIBAND:
        return f"IB {_INFINIBAND[int(rate)]}"
    if rate in _SLOW:
        return _SLOW[int(rate)]
    try:
        return link_type(text, network=True).name
    except TopologyError as error:
        hint = str(error).partition("; ")[2]
        rates = ", ".join(f"{known}G" for known in (*_SLOW, *_INFINIBAND))
        allowed = f"a rate ({rates}) or a network type of simgpu/data/links.csv"
        raise ScenarioError(
            [Issue(field="--nic", problem="is no port SimGPU knows", value=text, allowed=allowed, fix=hint or None)]
        ) from None


def port_of(speed_gbit_per_s: float, *, infiniband: bool, socket: bool) -> str | None:
    """Link type of a port of a known rate and link layer; None where the table has none.

    Parameters
    ----------
    speed_gbit_per_s : float, Gb/s
    infiniband : bool
        Or Ethernet.
    socket : bool
        Whether it is a plain Ethernet interface, which NCCL uses through TCP.

    Returns
    -------
    str or None

    Examples
    --------
    >>> port_of(200, infiniband=True, socket=False), port_of(100, infiniband=False, socket=True)
    ('IB HDR 200G', 'TCP 100GbE (NCCL socket)')
    >>> port_of(2, infiniband=False, socket=True) is None
    True
    """
    if infiniband:
        names: Iterable[str] = [f"IB {_INFINIBAND[rate]}" for rate in _INFINIBAND if rate == speed_gbit_per_s]
    elif socket:
        names = [f"TCP {speed_gbit_per_s:g}GbE (NCCL socket)"]
    else:
        names = [f"RoCEv2 {speed_gbit_per_s:g}G"]
    for name in names:
        try:
            return link_type(name, network=True).name
        except TopologyError:
            continue
    return None

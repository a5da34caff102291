"""Lists of hosts: hostfiles of DeepSpeed and MPI, ``ibstat``'s output, and SuperBench's map of InfiniBand adapters.

Formats: deepspeedai/DeepSpeed ``deepspeed/launcher/runner.py`` (fetch_hostfile); the manual of Open MPI's ``mpirun``;
linux-rdma/infiniband-diags ``ibstat``; microsoft/superbenchmark ``superbench/common/utils/topo_aware.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from simgpu.io.foreign.document import Document
from simgpu.io.foreign.ledger import Ledger
from simgpu.io.foreign.reading import Reading
from simgpu.io.text_file import read_text

KIND: Final = "host-list"
UNEVEN: Final = "gpus_by_node"
"""Key in ``open`` of the GPUs of each node, where they differ."""
PORTS: Final = "active_ports"
"""Key in ``open`` of the number of active ports of a host."""
_SLOTS: Final = re.compile(r"^([\w.:-]+)[ \t]+(?:slots|max_slots|sockets)[ \t]*=[ \t]*(\d{1,6})\b.*$")
_COLON: Final = re.compile(r"^([A-Za-z][\w.-]*):(\d{1,6})$")  # MPICH's
_HOST: Final = re.compile(r"^VM_hostname[ \t]+(\S+)$")
_GUID: Final = re.compile(r"^(?:0x)?[0-9a-f]{16}$")
_ADAPTER: Final = re.compile(r"^CA '([\w.:-]+)'$")
_PORT: Final = re.compile(r"^Port (\d+):$")
_ENTRY: Final = re.compile(r"^([A-Z][\w ]*):\s*(.*)$")
_LINKS: Final[Mapping[tuple[str, str], str]] = {
    ("InfiniBand", "56"): "IB FDR 56G",
    ("InfiniBand", "100"): "IB EDR 100G",
    ("InfiniBand", "200"): "IB HDR 200G",
    ("InfiniBand", "400"): "IB NDR 400G",
    ("InfiniBand", "800"): "IB XDR 800G",
    ("Ethernet", "25"): "RoCEv2 25G",
    ("Ethernet", "100"): "RoCEv2 100G",
    ("Ethernet", "200"): "RoCEv2 200G",
    ("Ethernet", "400"): "RoCEv2 400G",
}
"""Types of simgpu/data/links.csv by link layer and rate (Gb/s), as ibstat prints them."""


def recognise(path: Path, text: str) -> bool:
    r"""Return whether a text lists hosts or the ports of one.

    Examples
    --------
    >>> [recognise(Path("x"), text) for text in ("worker-1 slots=8\n", "VM_hostname a\n0ff08c4321664e96", "ls")]
    [True, True, False]
    """
    lines = _lines(text)
    if any(_HOST.match(line) or _ADAPTER.match(line) for line in lines[:5]):
        return True
    return bool(lines) and all(_listed(line) for line in lines)


def read_hostfile(path: Path) -> dict[str, int]:
    r"""Return the GPUs of each host of a hostfile, of DeepSpeed or MPI.

    Parameters
    ----------
    path : Path

    Returns
    -------
    dict
        In the order of the file.

    Raises
    ------
    ScenarioError
        For a line that is no host, and for a host that is there twice, as DeepSpeed does.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "hostfile"
    ...     _ = path.write_text("a slots=8\nb slots=4  # two are broken\n")
    ...     read_hostfile(path)
    {'a': 8, 'b': 4}
    """
    return listed_hosts(read_text(path, str(path)), path.name)


def listed_hosts(text: str, source: str) -> dict[str, int]:
    r"""Return the GPUs of each host of a hostfile's text.

    Raises
    ------
    ScenarioError
        As `read_hostfile` does.

    Examples
    --------
    >>> listed_hosts("a slots=8\nb slots=8\n", "hostfile")
    {'a': 8, 'b': 8}
    """
    hosts: dict[str, int] = {}
    ledger = Ledger(Document(source=source, data={}))
    for line in _lines(text):
        host = _listed(line)
        if host is None:
            ledger.refuse("", f"{line[:60]!r} is no host with its GPUs", allowed="NAME slots=N")
        if host[0] in hosts:
            ledger.refuse("", f"lists {host[0]} twice", fix="keep one of the two lines")
        hosts[host[0]] = host[1]
    return hosts


def _listed(line: str) -> tuple[str, int] | None:
    """Return a host and its GPUs; None for any other line."""
    found = _SLOTS.match(line) or _COLON.match(line)
    return None if found is None else (found[1], int(found[2]))


def read_host_list(path: Path) -> Reading:
    r"""Read how many nodes there are, with their GPUs where they are listed; of one host its ports.

    Parameters
    ----------
    path : Path

    Returns
    -------
    Reading

    Raises
    ------
    ScenarioError
        For a line that is neither a host nor a port.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "hostfile"
    ...     _ = path.write_text("a slots=8\nb slots=4  # two are broken\n")
    ...     reading = read_host_list(path)
    >>> reading.gpus, reading.settings
    (12, {'cluster.nodes': 2})
    """
    lines = _lines(read_text(path, str(path)))
    if any(_ADAPTER.match(line) for line in lines):
        return _ports(path.name, lines)
    hosts: dict[str, int | None] = {}
    ports: dict[str, int] = {}
    host = ""
    ledger = Ledger(Document(source=path.name, data={}))
    for number, line in enumerate(lines, start=1):
        listed, named = _listed(line), _HOST.match(line)
        if listed:
            hosts[listed[0]] = listed[1]
        elif named:
            host = named[1]
            ports.setdefault(host, 0)
        elif _GUID.match(line) and host:
            ports[host] += line.strip("0x") != ""
        else:
            ledger.refuse("", f"{line[:60]!r} (entry {number}) is neither a host nor an adapter's GUID")
    if ports:
        silent = [name for name, count in ports.items() if not count]
        hosts |= dict.fromkeys(name for name, count in ports.items() if count)
        told = f"{path.name}: {len(hosts)} hosts with InfiniBand"
        ledger.note(f"{told}; the GUIDs of their {sum(ports.values())} adapters are known and without effect")
        if silent:
            ledger.note(f"{path.name}: {', '.join(silent)} did not name an adapter, and {_is(silent)} left out")
    if not hosts:
        ledger.refuse("", "lists no host")
    slots = list(hosts.values())
    gpus = None if None in slots else sum(count for count in slots if count is not None)
    ledger.open |= uneven(slots)
    return ledger.reading(KIND, {"cluster.nodes": len(hosts)}, gpus=gpus)


def uneven(slots: Sequence[int | None]) -> dict[str, str]:
    """Return what ``open`` holds of the GPUs of each node; nothing where all have as many.

    Examples
    --------
    >>> uneven([8, 4]), uneven([8, 8]), uneven([8, None])
    ({'gpus_by_node': '8, 4'}, {}, {})
    """
    return {} if None in slots or len(set(slots)) < 2 else {UNEVEN: ", ".join(map(str, slots))}


def _is(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _ports(source: str, lines: list[str]) -> Reading:
    """Read the active ports of one host."""
    ledger = Ledger(Document(source=source, data={}))
    ports: list[dict[str, str]] = []
    adapters: list[str] = []
    for line in lines:
        adapter, entry = _ADAPTER.match(line), _ENTRY.match(line)
        if adapter:
            if adapter[1] in adapters:
                problem = f"has {adapter[1]} twice: it is of several hosts"
                ledger.refuse(
                    "", problem, fix="give ibstat's output of one host, and the number of nodes in another way"
                )
            adapters.append(adapter[1])
        elif _PORT.match(line):
            ports.append({})
        elif entry and ports:
            ports[-1][entry[1]] = entry[2]
    active = [port for port in ports if port.get("State") == "Active"]
    rates = sorted({(port.get("Link layer", "InfiniBand"), port.get("Rate", "")) for port in active})
    told = ", ".join(f"{rate} Gb/s of {layer}" for layer, rate in rates) or "none"
    ledger.note(f"{source}: {len(active)} of {len(ports)} ports are active ({told})")
    settings: dict[str, Any] = {}
    if len(rates) == 1 and rates[0] in _LINKS:
        settings["cluster.fabric.link"] = _LINKS[rates[0]]
    ledger.open[PORTS] = str(len(active))
    return ledger.reading(KIND, settings)


def _lines(text: str) -> list[str]:
    """Return what is written on the lines, without comments."""
    return [line for raw in text.splitlines() if (line := raw.partition("#")[0].strip())]

"""NCCL's topology XML: dumps (``NCCL_TOPO_DUMP_FILE``) and files written by hand (``NCCL_TOPO_FILE``).

``system > cpu > pci | nic``, ``pci > pci | gpu | nic``, ``nic > net``, ``gpu > nvlink | c2c`` (RCCL: ``xgmi``). Files
by hand often stop at ``pci``. The grammar is that of NVIDIA/nccl src/graph/xml.cc; no document type and no entity is
read.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET  # with document types refused beforehand there is nothing to expand
from typing import Any, Final

from simgpu.io.import_file import refusal

_DEEPEST: Final = 32
_MOST_ELEMENTS: Final = 20_000
_SPEED = re.compile(r"\s*(\d+(?:\.\d+)?)\s*GT/s\b.*")
# Class prefixes of NVIDIA/nccl src/graph/topo.h and xml.cc.
_BRIDGE, _GPU, _NIC, _NVSWITCH, _CPU = "0x060400", ("0x03", "0x12"), "0x02", "0x068000", "0x068001"
_KNOWN: Final = frozenset({"system", "cpu", "pci", "gpu", "nic", "net", "nvlink", "xgmi", "c2c", "pcilink"})


def read_nccl_xml(text: str, source: str) -> dict[str, Any]:
    """Read a topology XML.

    Parameters
    ----------
    text : str
    source : str
        Name of the file for messages.

    Returns
    -------
    dict
        ``cpus``: a list of ``numa``, ``arch``, ``vendor``, ``family``, ``model``, ``children``. A child has ``kind``:
        ``bridge`` (``children``), ``gpu`` (``dev``, ``rank``, ``sm``, ``gcn``, ``c2c``, ``links`` of ``target``,
        ``count`` and ``to``), ``nic`` (``nets`` of ``name``, ``speed_mbit_per_s``) or ``unknown``; and, of its slot,
        ``bus``, ``speed_gt_per_s``, ``width``, ``device``, ``vendor``, ``link_layer``. ``notes`` says what was odd.

    Raises
    ------
    ScenarioError
        In one sentence, when it is no such file.

    Examples
    --------
    >>> text = '<system version="1"><cpu numaid="0"><pci busid="0:1:0.0" class="0x030200"/></cpu></system>'
    >>> found = read_nccl_xml(text, "t")
    >>> found["cpus"][0]["children"][0]["kind"]
    'gpu'
    """
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        problem = "declares a document type, which NCCL's topology files never do, so it is not read"
        raise refusal(source, problem, fix="remove the declaration and its entities")
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        reason = re.sub(r": line \d+, column \d+$", "", str(error))
        raise refusal(source, f"is not well-formed XML: {reason}", line=error.position[0]) from None
    except (ValueError, RecursionError) as error:
        raise refusal(source, f"is not readable XML: {error}") from None
    if root.tag == "graphs":
        problem = "is an NCCL_GRAPH_FILE, the rings and trees that NCCL chose, and no topology"
        raise refusal(source, problem, fix="dump the topology with NCCL_TOPO_DUMP_FILE")
    if root.tag != "system":
        raise refusal(source, f"has the root <{_shown(root.tag)}>, but NCCL's topologies have <system>")
    cpus = root.findall("cpu")
    if not cpus:
        raise refusal(source, "has no <cpu>, so nothing hangs together")
    elements = sum(1 for _ in root.iter())
    if elements > _MOST_ELEMENTS:
        raise refusal(source, f"has {elements} elements, so describes no one machine")
    unknown = sorted({_shown(element.tag) for element in root.iter() if element.tag not in _KNOWN})
    notes = [f"elements that SimGPU does not know are left out: {', '.join(unknown)}"] if unknown else []
    return {"cpus": [_cpu(cpu, source) for cpu in cpus], "notes": notes}


def _cpu(element: ET.Element, source: str) -> dict[str, Any]:
    return {
        "numa": element.get("numaid", ""),
        "arch": element.get("arch", ""),
        "vendor": element.get("vendor", ""),
        "family": _whole(element, "familyid", source),
        "model": _whole(element, "modelid", source),
        "children": _children(element, source, 1),
    }


def _children(element: ET.Element, source: str, depth: int) -> list[dict[str, Any]]:
    if depth > _DEEPEST:
        raise refusal(source, f"nests PCI buses more than {_DEEPEST} deep")
    found = []
    for child in element:
        if child.tag == "pci":
            found.append(_pci(child, source, depth))
        elif child.tag == "nic":  # off no PCI slot: a virtual interface
            found.append({"kind": "nic", "bus": "", "nets": _nets(child, source), **_slot(child, source)})
    return found


def _pci(element: ET.Element, source: str, depth: int) -> dict[str, Any]:
    kind = element.get("class", "")
    slot = {"bus": element.get("busid", "").lower(), **_slot(element, source)}
    gpu, nic = element.find("gpu"), element.find("nic")
    if gpu is not None:
        return {"kind": "gpu", **_gpu(gpu, source), **slot}
    if nic is not None:
        return {"kind": "nic", "nets": _nets(nic, source), **slot}
    children = _children(element, source, depth + 1)
    if children or kind.startswith(_BRIDGE):
        return {"kind": "bridge", "children": children, **slot}
    if kind.startswith(_GPU):
        return {"kind": "gpu", "dev": None, "rank": None, "sm": None, "gcn": "", "links": None, "c2c": False, **slot}
    return {"kind": "nic" if kind.startswith(_NIC) else "unknown", "nets": None, **slot}


def _slot(element: ET.Element, source: str) -> dict[str, Any]:
    speed = _SPEED.fullmatch(element.get("link_speed", ""))
    kind = element.get("class", "")
    return {
        "speed_gt_per_s": float(speed[1]) if speed else None,
        "width": _whole(element, "link_width", source) or None,
        "device": element.get("device", "").lower(),
        "vendor": element.get("vendor", "").lower(),
        "link_layer": {"0x0207": "infiniband", "0x0200": "ethernet"}.get(kind[:6], ""),
    }


def _gpu(element: ET.Element, source: str) -> dict[str, Any]:
    links = [
        {
            "target": link.get("target", "").lower(),
            "count": _whole(link, "count", source) or 1,
            "to": {_NVSWITCH: "nvswitch", _CPU: "cpu"}.get(link.get("tclass", ""), "gpu"),
        }
        for link in element
        if link.tag in ("nvlink", "xgmi")
    ]
    return {
        "dev": _whole(element, "dev", source),
        "rank": _whole(element, "rank", source),
        "sm": _whole(element, "sm", source),
        "gcn": element.get("gcn", ""),
        "links": links,
        "c2c": element.find("c2c") is not None,
    }


def _nets(element: ET.Element, source: str) -> list[dict[str, Any]]:
    return [
        {"name": net.get("name", ""), "speed_mbit_per_s": _whole(net, "speed", source)}
        for net in element
        if net.tag == "net"
    ]


def _whole(element: ET.Element, key: str, source: str) -> int | None:
    text = element.get(key)
    if text is None or text == "":
        return None
    if not re.fullmatch(r"-?\d{1,12}", text):
        raise refusal(source, f"has {key}={_shown(text)!r} in a <{element.tag}>, which is no whole number")
    return int(text)


def _shown(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."

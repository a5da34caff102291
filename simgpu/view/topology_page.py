"""The page of a topology: its picture, the matrix of path classes, and the bandwidth of every pair."""

from __future__ import annotations

import html as markup
from collections.abc import Sequence
from typing import Final

from simgpu.hardware.path_class import LEGEND
from simgpu.metrics.topology_report import PairGroup, TopologyReport, pair_groups
from simgpu.units import format_bandwidth
from simgpu.view import pair_map
from simgpu.view.page import document, slot
from simgpu.view.topology import spec

_PICTURE: Final = (
    "CPUs on top, their PCIe buses below, GPUs and NICs in one row, NVLinks and the network under it. A line is a "
    "link, both ways; its width grows with what NCCL achieves in one direction. Point at anything for its figures."
)
_CLASSES: Final = "What lies between two devices of a node, in nvidia-smi's words: "
_PAIRS: Final = "What a GPU can send another when nothing else is under way, as NCCL achieves it, in one direction."


def topology_page(report: TopologyReport) -> str:
    """Write the page.

    Parameters
    ----------
    report : TopologyReport

    Returns
    -------
    str, HTML
        Complete document of 5 MB, most of it plotly.js; makes no request to any host.
    """
    legend = "; ".join(f"{name}: {meaning}" for name, meaning in LEGEND.items() if _occurs(name, report))
    pairs = pair_map.spec(report.pairs, report.ranks)
    return document(
        title=report.cluster.name,
        verdict=f"{title_of(report)}\n{bisection_text(report)}",
        sections=[
            ("Picture", _PICTURE, slot("topology")),
            ("Bandwidth of pairs", _PAIRS, _groups(pair_groups(report)) + slot("pairs")),
            ("Classes of paths", _CLASSES + markup.escape(legend) + ".", _matrix(report)),
        ],
        figures={"topology": spec(report.cluster), "pairs": pairs},
    )


def title_of(report: TopologyReport) -> str:
    """Say what the cluster is, in one line.

    Parameters
    ----------
    report : TopologyReport

    Returns
    -------
    str
    """
    cluster = report.cluster
    machine = cluster.machine
    models = {machine.devices[gpu].gpu for gpu in machine.gpus}
    names = ", ".join(sorted(model.name for model in models if model is not None))
    ports = {port.name for nic in machine.nics if (port := machine.devices[nic].port) is not None}
    nics = f", {cluster.nics} x {', '.join(sorted(ports))}" if machine.nics else ", no NIC"
    many = f"{cluster.nodes} nodes of " if cluster.nodes > 1 else ""
    return f"{cluster.name}: {many}{cluster.gpus_per_node} x {names}{nics}"


def bisection_text(report: TopologyReport) -> str:
    """Say what flows over the worst cut, in one line.

    Parameters
    ----------
    report : TopologyReport

    Returns
    -------
    str
    """
    cut = report.bisection
    if cut is None:
        return "one GPU has no bisection"
    which = "worst of all halves" if cut.every_half else "first half of the GPUs against the second"
    half = "" if not cut.every_half else f", GPUs {', '.join(map(str, cut.half))} against the rest"
    some = f"{cut.links[0]} and {len(cut.links) - 1} more" if len(cut.links) > 1 else "".join(cut.links)
    return f"bisection {format_bandwidth(cut.bytes_per_s)} each way ({which}{half}); it is cut at {some or 'no link'}"


def _occurs(name: str, report: TopologyReport) -> bool:
    return any(cell == name or (name == "NV#" and cell.startswith("NV")) for row in report.classes for cell in row)


def _groups(groups: Sequence[PairGroup]) -> str:
    rows = "".join(
        f"<tr><td class=name>{'within a node' if group.within else 'between nodes'}</td><td>{group.kind}</td>"
        f"<td>{group.bytes_per_s / 1e9:,.4g} GB/s</td><td>{markup.escape(group.example.link)}</td>"
        f"<td>{group.count:,}</td></tr>"
        for group in groups
    )
    heads = "<th></th><th>route</th><th>bandwidth</th><th>slowest link, first pair</th><th>ordered pairs</th>"
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


def _matrix(report: TopologyReport) -> str:
    heads = "".join(f"<th>{markup.escape(name)}</th>" for name in ("", *report.devices))
    rows = ""
    for name, row in zip(report.devices, report.classes, strict=True):
        cells = "".join(f"<td>{markup.escape(cell)}</td>" for cell in row)
        rows += f"<tr><td class=name>{markup.escape(name)}</td>{cells}</tr>"
    return f'<div style="overflow-x:auto"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'

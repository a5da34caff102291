"""What ``simgpu topology show`` and ``check`` do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from simgpu.cli.destination import choose_destination
from simgpu.errors import ScenarioError

if TYPE_CHECKING:
    from rich.console import Console

    from simgpu.hardware.cluster import Cluster
    from simgpu.metrics.topology_report import TopologyReport

_CELL: Final = 5
_LEAST_WIDTH: Final = 8


def show_topology(topology: str, *, nodes: int, html: str | None, json: str | None) -> TopologyReport:
    """Print a topology and write what is asked for.

    Parameters
    ----------
    topology : str
        Bundled name or path.
    nodes : int
    html, json : str or None
        Output paths as given.

    Returns
    -------
    TopologyReport

    Raises
    ------
    SimGPUError
        Before anything is written.
    """
    from simgpu.config.lookup import find_file
    from simgpu.io.json_file import to_json
    from simgpu.io.text_file import write_text
    from simgpu.metrics.topology_report import topology_report, topology_to_json

    found = find_file(topology, "topologies", folder=Path())
    inputs = [] if found is None else [found]
    destination = choose_destination(stem="", html=html, no_html=html is None, json=json, inputs=inputs)
    report = topology_report(_cluster(topology, nodes))
    text = None
    if destination.json is not None or destination.json_to_stdout:
        text = to_json(topology_to_json(report))
    if destination.html is not None:
        from simgpu.view.topology_page import topology_page

        write_text(destination.html, topology_page(report))
    if destination.json is not None and text is not None:
        write_text(destination.json, text)
    console = destination.console()
    _print(report, console)
    if destination.html is not None:
        console.print(f"Picture: {destination.html}", markup=False, soft_wrap=True)
    if destination.json_to_stdout and text is not None:
        print(text, end="")
    return report


def check_topology(topology: str) -> str:
    """Check a topology file: its fields, its links, and that every GPU reaches the others and a NIC.

    Parameters
    ----------
    topology : str
        Bundled name or path.

    Returns
    -------
    str
        What it is, in one line.

    Raises
    ------
    ScenarioError
        With every problem.

    Examples
    --------
    >>> check_topology("dgx-a100")
    'DGX A100: 8 x A100-SXM4-80GB, 8 x IB HDR 200G'
    """
    from simgpu.metrics.topology_report import topology_report
    from simgpu.view.topology_page import title_of

    cluster = _cluster(topology, 1)
    if cluster.nics:
        _cluster(topology, 2)  # whether every GPU has a way out
    return title_of(topology_report(cluster))


def _cluster(topology: str, nodes: int) -> Cluster:
    from simgpu.config.cluster_request import ClusterRequest, request_cluster

    try:
        return request_cluster(ClusterRequest(topology=topology, nodes=nodes))
    except ScenarioError as error:
        issues = [replace(i, field="topology") if i.field == "--topology" else i for i in error.issues]
        raise ScenarioError(issues) from None


def _print(report: TopologyReport, console: Console) -> None:
    from simgpu.hardware.path_class import LEGEND
    from simgpu.metrics.topology_report import pair_groups
    from simgpu.view.topology_page import bisection_text, title_of

    console.print(Text(title_of(report), style="bold"))
    console.print()
    _print_matrix(report, console)
    present = {cell for row in report.classes for cell in row}
    for name, meaning in LEGEND.items():
        if name in present or (name == "NV#" and any(cell.startswith("NV") for cell in present)):
            console.print(f"  {name:<4} {meaning}", markup=False, highlight=False)
    console.print()
    table = Table(title="Bandwidth of pairs, one direction, nothing else under way", title_justify="left")
    for name in ("where", "route", "GB/s", "slowest link of the first pair", "ordered pairs"):
        table.add_column(name, justify="right" if name in ("GB/s", "ordered pairs") else "left")
    for group in pair_groups(report):
        where = "in a node" if group.within else "between nodes"
        link = Text(group.example.link)
        table.add_row(where, group.kind, f"{group.bytes_per_s / 1e9:,.4g}", link, f"{group.count:,}")
    console.print(table)
    console.print(bisection_text(report), markup=False, highlight=False)


def _print_matrix(report: TopologyReport, console: Console) -> None:
    """Print the matrix in pieces that fit the terminal."""
    first = max(len(name) for name in report.devices) + 1
    wide = max(_CELL, *(len(name) + 1 for name in report.devices))
    step = max(_LEAST_WIDTH, (console.width - first) // wide)
    for start in range(0, len(report.devices), step):
        part = slice(start, start + step)
        head = "".join(f"{name:>{wide}}" for name in report.devices[part])
        console.print(Text(" " * first + head), soft_wrap=True)
        for name, row in zip(report.devices, report.classes, strict=True):
            console.print(Text(f"{name:<{first}}" + "".join(f"{cell:>{wide}}" for cell in row[part])), soft_wrap=True)
        console.print()

"""Measured tables of collectives: from a CSV file to rows that can be priced, and to what must be set aside."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from simgpu.config.lookup import find_file
from simgpu.config.table_systems import TableSystem, table_system
from simgpu.costs.collectives.settings import CURRENT, NcclSettings
from simgpu.errors import Issue, ProgramError, ScenarioError, SimGPUError
from simgpu.hardware.cluster import Cluster, build_cluster
from simgpu.io.csv_file import CsvFile, read_csv
from simgpu.io.yaml_file import read_yaml
from simgpu.metrics.collective_errors import MeasuredCollective
from simgpu.metrics.communication import bus_bandwidth
from simgpu.metrics.nccl_tests import kind_of
from simgpu.metrics.set_aside import Skipped

COLUMNS: Final = ("id", "op", "gpu", "ranks", "nodes", "intra_link", "size_bytes", "time_us")
"""Columns that a table must have.

``inter_link``, ``nccl_version``, ``algo``, ``algbw_gbs`` and ``busbw_gbs`` are used where they are there.
"""

_VERSION: Final = re.compile(r"\d+\.\d+(\.\d+)?")
_FORCED: Final = re.compile(r"(\w+) forced", re.IGNORECASE)
_PLAIN: Final = re.compile(r"\d+(\.\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveTable:
    """A measured table.

    Parameters
    ----------
    source : str
    rows : tuple of MeasuredCollective
        What can be priced.
    skipped : tuple of Skipped
        One for every other row.
    """

    source: str
    rows: tuple[MeasuredCollective, ...]
    skipped: tuple[Skipped, ...]


class _SkippedError(Exception):
    """Why a row cannot be priced."""


def read_collective_table(path: Path) -> CollectiveTable:
    """Read a measured table.

    Parameters
    ----------
    path : Path
        CSV with the columns of `COLUMNS`. Sizes are bytes of the whole payload as nccl-tests counts it; a row without
        a time gets it from its bandwidth.

    Returns
    -------
    CollectiveTable
        Rows whose hardware is unstated or unknown, or whose op is not modelled, are skipped, never guessed.

    Raises
    ------
    ScenarioError
        When the file cannot be read, lacks columns, or a cell that should be a number is none.
    """
    file = read_csv(path)
    absent = [name for name in COLUMNS if name not in file.header]
    if absent:
        columns = f"column{'s' if len(absent) > 1 else ''} {', '.join(absent)}"
        problem = f"is no table of measured collectives: it has no {columns}"
        raise ScenarioError([Issue(field="", problem=problem, allowed=", ".join(COLUMNS), file=file.source)])
    if not file.rows:
        raise ScenarioError([Issue(field="", problem="has a header and no rows", file=file.source)])
    reader = _Reader(file=file)
    rows: list[MeasuredCollective] = []
    skipped: list[Skipped] = []
    for cells, line in zip(file.rows, file.lines, strict=True):
        try:
            rows.append(reader.row(cells, line))
        except _SkippedError as why:
            skipped.append(Skipped(id=cells["id"], reason=str(why)))
    if reader.issues:
        raise ScenarioError(reader.issues)
    return CollectiveTable(source=file.source, rows=tuple(rows), skipped=tuple(skipped))


@dataclass(slots=True, kw_only=True)
class _Reader:
    file: CsvFile
    issues: list[Issue] = field(default_factory=list)
    clusters: dict[tuple[TableSystem, int], Cluster | SimGPUError] = field(default_factory=dict)

    def row(self, cells: Mapping[str, str], line: int) -> MeasuredCollective:
        """Turn one row into a measurement, or raise _SkippedError."""
        try:
            kind = kind_of(cells["op"])
        except ProgramError:
            raise _SkippedError(f"op is not modelled: {cells['op'] or 'unstated'}") from None
        ranks, nodes = self._whole(cells, "ranks", line), self._whole(cells, "nodes", line)
        if ranks is None or nodes is None:
            raise _SkippedError("hardware is unstated: number of ranks or nodes")
        found = table_system(cells["gpu"], cells["intra_link"], cells.get("inter_link", ""), nodes)
        if isinstance(found, str):
            raise _SkippedError(found)
        size_bytes = self._number(cells, "size_bytes", line)
        if not size_bytes:
            raise _SkippedError("size is unstated")
        time_us = self._time_us(cells, kind, ranks, size_bytes, line)
        if not time_us:
            raise _SkippedError("time and bandwidth are unstated")
        cluster = self._cluster(found, 1 if found.one_machine else nodes)
        members = _spread(cluster, ranks)
        return MeasuredCollective(
            series=cells["id"], kind=kind, cluster=cluster, members=members, size_bytes=int(size_bytes),
            time_ns=time_us * 1e3, nccl=_nccl(cells),
        )  # fmt: skip

    def _time_us(self, cells: Mapping[str, str], kind: str, ranks: int, size_bytes: float, line: int) -> float | None:
        time_us = self._number(cells, "time_us", line)
        for column, factor in (("algbw_gbs", 1.0), ("busbw_gbs", bus_bandwidth(kind, ranks, 1, 1e9))):
            rate = cells.get(column, "")
            if not time_us and _PLAIN.fullmatch(rate) and float(rate):  # "191-197" is no measurement
                time_us = size_bytes * factor / float(rate) / 1e3
        return time_us

    def _number(self, cells: Mapping[str, str], column: str, line: int) -> float | None:
        """Read a number; None for an empty cell."""
        text = cells.get(column, "")
        if not text:
            return None
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 <= number < float("inf"):
            problem = "is no number from 0"
            self.issues.append(Issue(field=column, value=text, problem=problem, file=self.file.source, line=line))
            return None
        return number

    def _whole(self, cells: Mapping[str, str], column: str, line: int) -> int | None:
        """Read a count; None for an empty cell and for words such as ``multi``."""
        text = cells.get(column, "")
        return int(text) if text.isdecimal() and int(text) else None

    def _cluster(self, system: TableSystem, machines: int) -> Cluster:
        key = (system, machines)
        if key not in self.clusters:
            try:
                self.clusters[key] = system_cluster(system, machines)
            except SimGPUError as error:
                self.clusters[key] = error
        found = self.clusters[key]
        if isinstance(found, SimGPUError):
            raise _SkippedError(str(found))
        return found


def system_cluster(system: TableSystem, machines: int) -> Cluster:
    """Build the cluster that a measured row ran on.

    Parameters
    ----------
    system : TableSystem
    machines : int

    Returns
    -------
    Cluster

    Raises
    ------
    ScenarioError
        When there is no such topology, or it has no network.
    """
    path = find_file(system.topology, "topologies", folder=Path())
    if path is None:
        raise ScenarioError([Issue(field="topology", value=system.topology, problem="is not bundled")])
    description = read_yaml(path).data
    if system.gpu_model:
        devices = description["devices"]
        for name, device in devices.items():
            if device["kind"] == "gpu":
                devices[name] = {**device, "model": system.gpu_model}
    fabric = {"link": system.fabric_link} if system.fabric_link and machines > 1 else None
    return build_cluster(description, nodes=machines, gpus=None, fabric=fabric, source=path.name)


def _nccl(cells: Mapping[str, str]) -> NcclSettings:
    """Read the version, where it is NCCL's, and an algorithm where the table says that it was forced."""
    version = cells.get("nccl_version", "")
    forced = _FORCED.match(cells.get("algo", ""))
    try:
        return replace(
            CURRENT,
            version=version if _VERSION.fullmatch(version) else CURRENT.version,
            algo=forced[1] if forced else "",
        )
    except ProgramError as error:
        raise _SkippedError(str(error)) from None


def _spread(cluster: Cluster, ranks: int) -> tuple[int, ...]:
    """Ranks of a run on the first GPUs of every node."""
    each, rest = divmod(ranks, cluster.nodes)
    if rest or not 1 <= each <= cluster.gpus_per_node or ranks < 2:
        have = f"{cluster.nodes} x {cluster.gpus_per_node} GPUs"
        raise _SkippedError(f"{ranks} ranks do not lie evenly on {have} of {cluster.name}")
    return tuple(node * cluster.gpus_per_node + local for node in range(cluster.nodes) for local in range(each))

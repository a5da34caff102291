"""The output of nccl-tests as a measured table: rows that can be priced on the topology that the user names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from simgpu.config.cluster_request import ClusterRequest, request_cluster
from simgpu.config.collective_table import CollectiveTable
from simgpu.costs.collectives.settings import CURRENT, NcclSettings
from simgpu.errors import Issue, ScenarioError
from simgpu.io.nccl_log import read_nccl_log
from simgpu.metrics.collective_errors import MeasuredCollective
from simgpu.metrics.set_aside import Skipped


def read_collective_log(path: Path, topology: str, nccl: NcclSettings = CURRENT) -> CollectiveTable:
    """Read the output of nccl-tests, measured on a topology.

    Parameters
    ----------
    path : Path
    topology : str
        Bundled name, or path of a topology file; its first GPUs are the ranks, as many on every node.
    nccl : NcclSettings
        Version and settings; the log's version counts where this is the current one.

    Returns
    -------
    CollectiveTable
        One series for each program that was run. What the topology cannot hold is skipped, with the reason.

    Raises
    ------
    ScenarioError
        When the file is no such output, does not say which collective it measured, or there is no such topology.
    """
    log = read_nccl_log(path)
    if not log.tests:
        problem, fix = "has no table of nccl-tests", "give the output of all_reduce_perf and the like"
        raise ScenarioError([Issue(field="", problem=problem, fix=fix, file=log.source)])
    if log.version and nccl == CURRENT:
        nccl = replace(nccl, version=log.version)
    rows: list[MeasuredCollective] = []
    skipped: list[Skipped] = []
    for test in log.tests:
        if not test.kind:
            problem, fix = "does not say which collective it measured", "name it such as all_reduce.log"
            raise ScenarioError([Issue(field="", problem=problem, fix=fix, file=log.source)])
        series = f"{test.kind}, {test.ranks} ranks on {test.nodes} node{'s' * (test.nodes > 1)}"
        cluster = request_cluster(ClusterRequest(topology=topology, nodes=test.nodes))
        share, over = divmod(test.ranks, test.nodes)
        if over or share > cluster.gpus_per_node:
            reason = f"{test.nodes} x {cluster.name} has {cluster.gpus_per_node} GPUs a node"
            skipped += [Skipped(id=series, reason=reason)] * len(test.times_us)
            continue
        members = tuple(node * cluster.gpus_per_node + place for node in range(test.nodes) for place in range(share))
        rows += [
            MeasuredCollective(
                series=series,
                kind=test.kind,
                cluster=cluster,
                members=members,
                size_bytes=size,
                time_ns=us * 1e3,
                nccl=nccl,
            )
            for size, us in test.times_us.items()
        ]
    return CollectiveTable(source=log.source, rows=tuple(rows), skipped=tuple(skipped))

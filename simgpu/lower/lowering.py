"""Join cluster, model, training and strategy into a Program."""

from __future__ import annotations

import numpy as np

from simgpu.costs.collectives.settings import CURRENT, NcclSettings
from simgpu.costs.transfers import program_links
from simgpu.hardware.cluster import Cluster
from simgpu.lower.communicators import EXPERT_AXES, OWN_GROUPS, accounting_axis, groups_along
from simgpu.lower.kernels import KernelPrices
from simgpu.lower.laid_out import Int64, LaidOutGroups, LaidOutRanks
from simgpu.lower.roles import write_roles
from simgpu.lower.transfers import mark_disturbances, price_transfers, with_messages_of
from simgpu.parallel.mesh import Mesh
from simgpu.parallel.strategy import Strategy
from simgpu.program import Communicator, Program
from simgpu.workload.architecture import Architecture
from simgpu.workload.software import DEFAULT, Software
from simgpu.workload.synthetic import SyntheticModel
from simgpu.workload.training import Training


def lower(
    cluster: Cluster,
    model: Architecture | SyntheticModel,
    training: Training,
    strategy: Strategy,
    *,
    network_free: bool = False,
    nccl: NcclSettings = CURRENT,
    prices: KernelPrices | None = None,
    software: Software = DEFAULT,
) -> Program:
    """Write the Program of one training step.

    Parameters
    ----------
    cluster : Cluster
        With ``strategy.world_size`` GPUs.
    model : Architecture or SyntheticModel
    training : Training
    strategy : Strategy
    network_free : bool
        Every transfer takes no time; ranks still wait for each other.
    nccl : NcclSettings
        Version and settings of NCCL.
    prices : KernelPrices, optional
        How ops are priced; by the model on the cluster's own device by default.
    software : Software
        Which ops are one kernel, and what the CPU needs to issue one.

    Returns
    -------
    Program
        One role per pipeline rank, one rank per GPU.

    Raises
    ------
    ScenarioError, ModelError
        When the model cannot be divided as asked.
    TopologyError
        When NCCL is forced to what a group cannot run.
    """
    mesh = Mesh(degrees=strategy.mesh_degrees)
    expert_mesh = Mesh(degrees=strategy.expert_mesh_degrees)
    prices = prices or KernelPrices(cluster.gpu(0))
    step = write_roles(model, training, strategy, prices=prices, software=software)
    roles, axes = step.roles, step.axes
    tables: dict[str, Int64] = {}
    bindings: dict[str, Int64] = {}
    first = 0
    for name, mesh_axes in axes.items():
        table = (expert_mesh if EXPERT_AXES.intersection(mesh_axes) else mesh).table(*mesh_axes)
        if name in OWN_GROUPS:
            ways = (groups_along(name, tuple(along), step.chunks, step.placement) for along in table.tolist())
            table = np.array([group for way in ways for group in way], np.int64)
        tables[name] = table
        bindings[name] = np.full(mesh.size, -1, np.int64)
        bindings[name][table] = np.arange(first, first + len(table))[:, None]
        first += len(table)
    stages = np.minimum(np.arange(mesh.size), 1) if strategy.threaded else np.array(mesh.along("pp"), np.int64)
    ranks, groups = LaidOutRanks(stages, bindings), LaidOutGroups(tables)
    links = () if network_free else program_links(cluster)
    transfers = price_transfers(cluster, roles, ranks, groups, free=network_free, nccl=nccl)
    if isinstance(model, SyntheticModel) and model.message_ns is not None:
        transfers = with_messages_of(transfers, model.message_ns)
    disturbances, transfers = mark_disturbances(transfers, links)
    return Program(
        roles=roles,
        ranks=ranks,
        groups=groups,
        communicators={
            name: Communicator(
                name=name,
                axis=accounting_axis(name, mesh_axes),
                spans_stages="pp" in mesh_axes and strategy.pp > 1,
            )
            for name, mesh_axes in axes.items()
        },
        links=links,
        transfers=transfers,
        disturbances=disturbances,
        disturbed_ns=prices.disturbed_ns(disturbances),
    )

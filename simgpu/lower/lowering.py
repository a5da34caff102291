"""Join cluster, model, training and strategy into a Program."""

from __future__ import annotations

from simgpu.costs.collectives.settings import CURRENT, NcclSettings
from simgpu.costs.optimizer import optimizer_ops
from simgpu.costs.transfers import program_links
from simgpu.hardware.cluster import Cluster
from simgpu.lower.kernels import KernelPrices
from simgpu.lower.overheads import COMMUNICATOR_BYTES, CONTEXT_BYTES
from simgpu.lower.role import RoleWriter
from simgpu.lower.stage_units import StageUnits, synthetic_stage, transformer_stage
from simgpu.lower.transfers import mark_disturbances, price_transfers
from simgpu.parallel.data_parallel import SHARDED_WEIGHTS, STRATEGIES, DataParallelPlan
from simgpu.parallel.data_parallel.plan import shard_elements
from simgpu.parallel.mesh import Mesh
from simgpu.parallel.schedules import SCHEDULES
from simgpu.parallel.stages import partition_layers
from simgpu.parallel.strategy import Strategy
from simgpu.program import Communicator, Group, Program, Rank, Role
from simgpu.workload.model import Model
from simgpu.workload.synthetic import SyntheticModel, synthetic_units
from simgpu.workload.training import Training
from simgpu.workload.transformer import transformer_units


def lower(
    cluster: Cluster,
    model: Model | SyntheticModel,
    training: Training,
    strategy: Strategy,
    *,
    network_free: bool = False,
    nccl: NcclSettings = CURRENT,
) -> Program:
    """Write the Program of one training step.

    Parameters
    ----------
    cluster : Cluster
        With ``strategy.world_size`` GPUs.
    model : Model or SyntheticModel
    training : Training
    strategy : Strategy
    network_free : bool
        Every transfer takes no time; ranks still wait for each other.
    nccl : NcclSettings
        Version and settings of NCCL.

    Returns
    -------
    Program
        One role per pipeline stage, one rank per GPU.

    Raises
    ------
    ScenarioError, ModelError
        When the model cannot be divided as asked.
    TopologyError
        When NCCL is forced to what a group cannot run.
    """
    mesh = Mesh(degrees={axis: getattr(strategy, axis) for axis in strategy.order})
    stages = _stages(model, training, strategy)
    plan_stage = STRATEGIES[strategy.data_parallel if strategy.dp > 1 else "none"]
    plans = tuple(plan_stage(stage.weights, training, strategy) for stage in stages)
    axes = _communicator_axes(stages, plans, training, strategy)
    prices = KernelPrices(cluster.gpu(0))
    roles = tuple(
        _role(prices, stages, plans, index, training, strategy, norm="norm" in axes) for index in range(strategy.pp)
    )
    groups: list[Group] = []
    bindings: list[dict[str, int]] = [{} for _ in range(mesh.size)]
    for name, mesh_axes in axes.items():
        for members in mesh.groups(*mesh_axes):
            if name == "embedding":
                members = (members[0], members[-1])  # first and last stage of one pipeline
            for rank in members:
                bindings[rank][name] = len(groups)
            groups.append(Group(communicator=name, members=members))
    ranks = tuple(
        Rank(role=mesh.coordinates(rank)["pp"], groups=bindings[rank], members=(rank,)) for rank in range(mesh.size)
    )
    links = () if network_free else program_links(cluster)
    transfers = price_transfers(cluster, roles, ranks, groups, free=network_free, nccl=nccl)
    disturbances, transfers = mark_disturbances(transfers, links)
    return Program(
        roles=roles,
        ranks=ranks,
        groups=tuple(groups),
        communicators={
            name: Communicator(
                name=name,
                axis="pp" if "pp" in mesh_axes else "dp" if "dp" in mesh_axes else "tp",
                spans_stages="pp" in mesh_axes and strategy.pp > 1,
            )
            for name, mesh_axes in axes.items()
        },
        links=links,
        transfers=transfers,
        disturbances=disturbances,
        disturbed_ns=prices.disturbed_ns(disturbances),
    )


def _stages(model: Model | SyntheticModel, training: Training, strategy: Strategy) -> tuple[StageUnits, ...]:
    if isinstance(model, SyntheticModel):
        return tuple(synthetic_stage(unit, index) for index, unit in enumerate(synthetic_units(model)))
    sharded = strategy.dp > 1 and strategy.data_parallel in SHARDED_WEIGHTS  # gathered in the compute precision
    parts = transformer_units(
        model,
        training,
        tp=strategy.tp,
        sequence_parallel=strategy.sequence_parallel,
        cast_weights=not sharded and training.param_dtype != training.precision,
    )
    stages, first_block = [], 0
    for stage in partition_layers(model.layers, strategy.pp, strategy.layers_per_stage):
        stages.append(transformer_stage(parts, stage, first_block))
        first_block += stage.blocks
    return tuple(stages)


def _communicator_axes(
    stages: tuple[StageUnits, ...], plans: tuple[DataParallelPlan, ...], training: Training, strategy: Strategy
) -> dict[str, tuple[str, ...]]:
    """Communicators in use and the mesh axes that each of their groups runs along.

    The gradient norm is summed over the axes along which ranks hold different gradients.
    """
    axes: dict[str, tuple[str, ...]] = {}
    for axis in ("tp", "dp", "pp"):
        if getattr(strategy, axis) > 1:
            axes[axis] = (axis,)
    if any(stage.tied_elements for stage in stages):
        axes["embedding"] = ("pp",)
    different = {"pp": strategy.pp > 1, "tp": strategy.tp > 1, "dp": any(plan.gradient_shards > 1 for plan in plans)}
    norm = tuple(axis for axis, differs in different.items() if differs)
    if norm and training.optimizer != "none" and any(plan.optimizer_elements for plan in plans):
        axes["norm"] = norm
    return axes


def _role(
    prices: KernelPrices,
    stages: tuple[StageUnits, ...],
    plans: tuple[DataParallelPlan, ...],
    index: int,
    training: Training,
    strategy: Strategy,
    *,
    norm: bool,
) -> Role:
    parts, plan = stages[index], plans[index]
    schedule = SCHEDULES[strategy.schedule if strategy.pp > 1 else "1f1b"]
    gradient = training.grad_dtype.bytes
    replicated = parts.replicated_elements if strategy.sequence_parallel and strategy.tp > 1 else 0
    writer = RoleWriter(
        prices=prices,
        stage=index,
        stages=strategy.pp,
        parts=parts,
        plan=plan,
        actions=schedule(strategy.pp, training.accumulation, index),
        message_bytes=max(stage.message_bytes for stage in stages),
        overlap_p2p=strategy.overlap_p2p,
        optimizer=optimizer_ops(
            plan.optimizer_elements,
            training,
            len(parts.weights.gradients),
            zero_gradients=plan.store.zeroed,
        ),
        norm=norm,
        replicated_bytes=shard_elements(replicated, plan.gradient_shards) * gradient,
        tied_bytes=shard_elements(parts.tied_elements, plan.gradient_shards) * gradient,
    )
    streams = writer.write()
    resident = {
        "weights": plan.weights_bytes,
        "gradients": plan.gradients_bytes,
        "optimizer": plan.optimizer_bytes,
        "buckets": plan.buckets_bytes,
        "context": CONTEXT_BYTES,
        "communication": COMMUNICATOR_BYTES if strategy.world_size > 1 else 0,
    }
    return Role(
        name=f"stage {index}",
        stages=(index,),
        position={"pp": index},
        streams=streams,
        resident_bytes={category: size for category, size in resident.items() if size},
        capacity_bytes=prices.gpu.memory_bytes,
        device=prices.gpu.name,
    )

"""Join cluster, model, training and strategy into a Program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from simgpu.costs.collectives.settings import CURRENT, NcclSettings
from simgpu.costs.optimizer import optimizer_ops
from simgpu.costs.transfers import program_links
from simgpu.hardware.cluster import Cluster
from simgpu.lower.host import issuing_host, norm_is_read
from simgpu.lower.kernels import KernelPrices
from simgpu.lower.offload import HOST_STREAMS, host_bytes
from simgpu.lower.overheads import COMMUNICATOR_BYTES, CONTEXT_BYTES, dummy_gradient_bytes, workspace_bytes
from simgpu.lower.pipeline import PipelineScript, pipeline_script
from simgpu.lower.recompute import mixed, recomputed
from simgpu.lower.role import Chunk, RoleWriter
from simgpu.lower.stage_plan import stage_plan
from simgpu.lower.stage_units import StageUnits, model_stage, synthetic_stage
from simgpu.lower.threads import threaded_roles
from simgpu.lower.transfers import mark_disturbances, price_transfers
from simgpu.parallel.data_parallel import SHARDED_WEIGHTS, StageWeights
from simgpu.parallel.data_parallel.plan import shard_elements
from simgpu.parallel.mesh import Mesh
from simgpu.parallel.pipeline import pipeline_schedule
from simgpu.parallel.placement import Placement
from simgpu.parallel.stages import partition_layers
from simgpu.parallel.strategy import Strategy
from simgpu.program import HOST, Communicator, Group, Program, Rank, Role
from simgpu.workload.architecture import Architecture
from simgpu.workload.families import model_units
from simgpu.workload.fp8 import kept_copy_bytes
from simgpu.workload.frozen import trained_units
from simgpu.workload.layer import ModelUnits
from simgpu.workload.op import MemoryBound
from simgpu.workload.software import DEFAULT, HostCosts, Software
from simgpu.workload.synthetic import SyntheticModel, synthetic_units
from simgpu.workload.training import Training

EXPERT_AXES = frozenset({"ep", "edp", "etp"})
"""Axes of the mesh that the experts are laid out on."""


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
    empty = StageUnits(units=(), names=(), weights=StageWeights(kinds=(), gradients=()))
    nothing = stage_plan(empty, training, strategy)
    schedule = pipeline_schedule(strategy, training.accumulation)
    placement = schedule.placement
    stages = _stages(model, training, strategy, software, placement, gradient_buffers=nothing.store.zeroed)
    chunks = tuple(Chunk(parts=stage, plan=stage_plan(stage, training, strategy)) for stage in stages)
    axes = _communicator_axes(chunks, placement, training, strategy)
    prices = prices or KernelPrices(cluster.gpu(0))
    host = issuing_host(model, software.host)
    script = pipeline_script(schedule, overlap=strategy.overlap_p2p)
    threaded = strategy.threaded
    roles = (
        threaded_roles(prices, stages[0], chunks[0].plan, training, software, strategy.dp, host)
        if threaded
        else tuple(
            _role(prices, script, chunks, index, training, strategy, software, norm="norm" in axes, host=host)
            for index in range(strategy.pp)
        )
    )
    groups: list[Group] = []
    bindings: list[dict[str, int]] = [{} for _ in range(mesh.size)]
    for name, mesh_axes in axes.items():
        grid = expert_mesh if EXPERT_AXES.intersection(mesh_axes) else mesh
        for along in grid.groups(*mesh_axes):
            for members in _groups(name, along, placement):
                for rank in members:
                    bindings[rank][name] = len(groups)
                groups.append(Group(communicator=name, members=members))
    ranks = tuple(
        Rank(role=min(rank, 1) if threaded else mesh.coordinates(rank)["pp"], groups=bindings[rank], members=(rank,))
        for rank in range(mesh.size)
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
                axis=_accounting_axis(name, mesh_axes),
                spans_stages="pp" in mesh_axes and strategy.pp > 1,
            )
            for name, mesh_axes in axes.items()
        },
        links=links,
        transfers=transfers,
        disturbances=disturbances,
        disturbed_ns=prices.disturbed_ns(disturbances),
    )


def _stages(
    model: Architecture | SyntheticModel,
    training: Training,
    strategy: Strategy,
    software: Software,
    placement: Placement,
    *,
    gradient_buffers: bool,
) -> tuple[StageUnits, ...]:
    if isinstance(model, SyntheticModel):
        return tuple(synthetic_stage(unit, index) for index, unit in enumerate(synthetic_units(model)))
    apart = strategy.replicas > 1 or strategy.offloads
    sharded = apart and strategy.data_parallel in SHARDED_WEIGHTS  # gathered in the compute precision

    def units(training: Training) -> ModelUnits:
        parts = model_units(
            model,
            training,
            tp=strategy.tp,
            sequence_parallel=strategy.sequence_parallel,
            cast_weights=not sharded and training.param_dtype != training.precision,
            software=software,
            gradient_buffers=gradient_buffers,
            gathered_weights=sharded,
            splits=strategy.splits,
        )
        scattered = strategy.tp if strategy.sequence_parallel else 1
        return trained_units(parts, model, training, scattered=scattered)

    partition = partition_layers(model.layers, placement.stages, strategy.layers_per_stage)
    parts, again = units(training), recomputed(training, partition)
    if 0 < len(again) < model.layers:
        parts = mixed(parts, units(replace(training, recompute="none")), again)
    stages, first_layer = [], 0
    together = placement.stages_on(0)[-1] == placement.stages - 1
    for stage in partition:
        stages.append(model_stage(parts, stage, first_layer, together=together))
        first_layer += stage.blocks
    return tuple(stages)


def _groups(name: str, along: tuple[int, ...], placement: Placement) -> tuple[tuple[int, ...], ...]:
    """Return the groups of a communicator among the ranks along its axes: mostly all of them."""
    if name == "embedding":
        return ((along[placement.rank(0)], along[placement.rank(placement.stages - 1)]),)
    if name == "mirror":
        return tuple(zip(along[: len(along) // 2], reversed(along[len(along) // 2 :]), strict=True))
    return (along,)


def _accounting_axis(name: str, mesh_axes: tuple[str, ...]) -> str:
    """Return the class of a communicator's transfers: replicas count as dp, those along cp too."""
    if name in HOST_STREAMS or name == HOST:
        return "host"
    if "pp" in mesh_axes:
        return "pp"
    if mesh_axes == ("tp",):
        return "tp"
    return name if name in ("cp", "ep") else "dp"


def _communicator_axes(
    chunks: tuple[Chunk, ...], placement: Placement, training: Training, strategy: Strategy
) -> dict[str, tuple[str, ...]]:
    """Communicators in use and the mesh axes that each of their groups runs along.

    The gradient norm is summed over the axes along which ranks hold different gradients.
    """
    axes = dict(strategy.mesh_axes)
    if strategy.threaded:
        return axes | {HOST: axes["dp"]}
    if strategy.offloads:
        axes = {"dp": ("dp",), **axes} | dict.fromkeys(HOST_STREAMS, ())
    if any(chunk.parts.tied_elements for chunk in chunks):
        axes["embedding"] = ("pp",)
    if placement.mirrored_from is not None and any(chunk.parts.weights.elements for chunk in chunks):
        axes["mirror"] = ("pp",)
    shards = max(chunk.plan.gradient_shards for chunk in chunks)
    sharded = "dp_shard" if strategy.divided and shards == strategy.for_weights.dp_shard else "dp"
    different = {"pp": strategy.pp > 1, "tp": strategy.tp > 1, sharded: shards > 1}
    norm = tuple(mesh_axis for axis, differs in different.items() if differs for mesh_axis in axes[axis])
    if strategy.ep > 1 and shards == 1:  # gradients of experts differ within the replicas
        norm = tuple(axis for axis, degree in strategy.expert_mesh_degrees.items() if degree > 1 and axis != "edp")
    if norm and training.optimizer != "none" and any(chunk.plan.optimizer_elements for chunk in chunks):
        axes["norm"] = norm
    return axes


def _role(
    prices: KernelPrices,
    script: PipelineScript,
    chunks: tuple[Chunk, ...],
    rank: int,
    training: Training,
    strategy: Strategy,
    software: Software,
    *,
    norm: bool,
    host: HostCosts | None,
) -> Role:
    placement = script.schedule.placement
    held = {stage: chunks[stage] for stage in placement.stages_on(rank)}
    parts, plans = [chunk.parts for chunk in held.values()], [chunk.plan for chunk in held.values()]
    gradient = training.grad_dtype.bytes

    def reduced_bytes(elements: Callable[[StageUnits], int]) -> int:
        """Bytes of gradients of some of the weights, as reduced over dp."""
        return gradient * sum(shard_elements(elements(c.parts), c.plan.gradient_shards) for c in held.values())

    replicated = strategy.sequence_parallel and strategy.tp > 1
    kept_fp8 = sum(0 if chunk.plan.shards else chunk.parts.fp8_elements for chunk in held.values())
    message_bytes = max(chunk.parts.message_bytes for chunk in chunks)
    scattered = strategy.scatter_gather and strategy.tp > 1 and not strategy.sequence_parallel
    writer = RoleWriter(
        prices=prices,
        script=script,
        rank=rank,
        chunks=held,
        message_bytes=-(-message_bytes // strategy.tp) if scattered else message_bytes,
        gathered_bytes=message_bytes if scattered else 0,
        optimizer=(
            *optimizer_ops(
                sum(plan.optimizer_elements for plan in plans),
                training,
                sum(len(part.weights.gradients) for part in parts),
                zero_gradients=plans[0].store.zeroed,
                software=software,
            ),
            *_fp8_copies(kept_fp8, training, sum(part.fp8_tensors for part in parts)),
        ),
        norm=norm,
        replicated_bytes=reduced_bytes(lambda part: part.replicated_elements) if replicated else 0,
        tied_bytes=reduced_bytes(lambda part: part.tied_elements),
        mirrored_bytes=0 if placement.mirrored_from is None else gradient * sum(p.optimizer_elements for p in plans),
        host=host,
        norm_read=norm_is_read(strategy, training),
    )
    streams = writer.write()
    resident = {
        "weights": sum(plan.weights_bytes for plan in plans)
        + kept_copy_bytes(kept_fp8)
        + sum(part.buffer_bytes for part in parts),
        "gradients": sum(plan.gradients_bytes for plan in plans),
        "optimizer": sum(plan.optimizer_bytes for plan in plans),
        "buckets": sum(plan.buckets_bytes for plan in plans),
        "dummy gradients": dummy_gradient_bytes(
            [unit for part in parts for unit in part.units], software, training.precision.bytes
        ),
        "workspaces": workspace_bytes(prices.gpu, software) + (strategy.tp * message_bytes if replicated else 0),
        "context": CONTEXT_BYTES,
        "communication": COMMUNICATOR_BYTES if strategy.world_size > 1 else 0,
    }
    stages = tuple(held)
    return Role(
        name=f"stage{'s' if len(stages) > 1 else ''} {', '.join(map(str, stages))}",
        stages=stages,
        position={"pp": rank},
        streams=streams,
        resident_bytes={category: size for category, size in resident.items() if size},
        capacity_bytes=prices.gpu.memory_bytes,
        device=prices.gpu.name,
        host_bytes=host_bytes(plans),
    )


def _fp8_copies(elements: int, training: Training, tensors: int) -> tuple[MemoryBound, ...]:
    """Cast of the weights for the next step's GEMMs, where copies are kept and an optimizer changes the weights."""
    if not elements or training.optimizer == "none":
        return ()
    moved = elements * training.param_dtype.bytes + kept_copy_bytes(elements)
    return (MemoryBound(name="fp8_weight_cast", bytes=moved, op_class="optimizer", kernels=tensors),)

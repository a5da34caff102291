"""What every pipeline rank does in one step: the roles of a Program, and the communicators that they name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from simgpu.costs.optimizer import optimizer_ops, working_bytes
from simgpu.lower.communicators import communicator_axes
from simgpu.lower.emitter import Blocks
from simgpu.lower.host import issuing_host, norm_is_read
from simgpu.lower.kernels import KernelPrices
from simgpu.lower.offload import host_bytes
from simgpu.lower.overheads import COMMUNICATOR_BYTES, CONTEXT_BYTES, dummy_gradient_bytes, workspace_bytes
from simgpu.lower.pipeline import PipelineScript, pipeline_script
from simgpu.lower.recompute import mixed, recomputed
from simgpu.lower.role import Chunk, RoleWriter
from simgpu.lower.segments import SegmentCompiler
from simgpu.lower.stage_plan import stage_plan
from simgpu.lower.stage_units import StageUnits, model_stage, synthetic_stage
from simgpu.lower.threads import threaded_roles
from simgpu.parallel.data_parallel import SHARDED_WEIGHTS, StageWeights
from simgpu.parallel.data_parallel.plan import shard_elements
from simgpu.parallel.pipeline import pipeline_schedule
from simgpu.parallel.placement import Placement
from simgpu.parallel.stages import partition_layers
from simgpu.parallel.strategy import Strategy
from simgpu.program import Role
from simgpu.workload.architecture import Architecture
from simgpu.workload.families import model_units
from simgpu.workload.fp8 import kept_copy_bytes
from simgpu.workload.frozen import trained_units
from simgpu.workload.host_costs import HostCosts
from simgpu.workload.layer import ModelUnits
from simgpu.workload.op import MemoryBound
from simgpu.workload.software import Software
from simgpu.workload.synthetic import SyntheticModel, synthetic_units
from simgpu.workload.training import Training


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRoles:
    """The roles of a step.

    Parameters
    ----------
    roles : tuple of Role
        One per pipeline rank; of Python's threads one for the first device and one for the others.
    chunks : tuple of Chunk
        The stages that they hold, all of them.
    placement : Placement
        Which rank holds which stage.
    axes : mapping of str to tuple of str
        Communicators, and the mesh axes that each of their groups runs along.
    """

    roles: tuple[Role, ...]
    chunks: tuple[Chunk, ...]
    placement: Placement
    axes: Mapping[str, tuple[str, ...]]


def write_roles(
    model: Architecture | SyntheticModel,
    training: Training,
    strategy: Strategy,
    *,
    prices: KernelPrices,
    software: Software,
    named: bool = True,
) -> StepRoles:
    """Write what every pipeline rank does in one training step.

    Parameters
    ----------
    model : Architecture or SyntheticModel
    training : Training
    strategy : Strategy
    prices : KernelPrices
        How ops are priced.
    software : Software
        Which ops are one kernel, and what the CPU needs to issue one.
    named : bool
        Work is called after its layer. Without, stages that do the same are written once for all ranks.

    Returns
    -------
    StepRoles

    Raises
    ------
    ScenarioError, ModelError
        When the model cannot be divided as asked.

    Examples
    --------
    >>> from simgpu.hardware.gpu import gpu
    >>> from simgpu.workload.software import DEFAULT
    >>> model = SyntheticModel(name="s", stages=2, forward_ns=(1, 1), backward_ns=(2, 2))
    >>> training = Training(sequence_length=1, micro_batch_size=1, accumulation=4)
    >>> prices = KernelPrices(gpu("A100-SXM4-80GB"))
    >>> step = write_roles(model, training, Strategy(pp=2), prices=prices, software=DEFAULT)
    >>> [role.name for role in step.roles], dict(step.axes)
    (['stage 0', 'stage 1'], {'pp': ('pp',)})
    """
    empty = StageUnits(units=(), names=(), weights=StageWeights(kinds=(), gradients=()))
    nothing = stage_plan(empty, training, strategy)
    schedule = pipeline_schedule(strategy, training.accumulation)
    placement = schedule.placement
    stages = _stages(model, training, strategy, software, placement, gradient_buffers=nothing.store.zeroed)
    if not named:
        stages = _unnamed(stages)
    plans = {id(stage): stage_plan(stage, training, strategy) for stage in stages}
    chunks = tuple(
        Chunk(
            parts=stage,
            plan=plans[id(stage)],
            output_bytes=0 if strategy.megatron or stage is stages[-1] else stage.message_bytes,  # Megatron drops it
        )
        for stage in stages
    )
    axes = communicator_axes(chunks, placement, training, strategy)
    host = issuing_host(model, software.host)
    script = pipeline_script(schedule, overlap=strategy.overlap_p2p)
    compiler, shared = SegmentCompiler(prices), Blocks()

    def role(index: int) -> Role:
        blocks = Blocks() if named else shared
        return _role(
            prices, script, chunks, index, training, strategy, software, "norm" in axes, host, compiler, blocks
        )

    roles = (
        threaded_roles(prices, stages[0], chunks[0].plan, training, software, strategy.dp, host)
        if strategy.threaded
        else tuple(map(role, range(strategy.pp)))
    )
    return StepRoles(roles=roles, chunks=chunks, placement=placement, axes=axes)


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
    apart = strategy.copies > 1 or strategy.alone_alike
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
    stages: list[StageUnits] = []
    first_layer, received = 0, 0
    for stage in partition:
        here = [stages[s] for s in placement.stages_on(placement.rank(stage.index)) if s < stage.index]
        held = frozenset(name for earlier in here for name in earlier.copies)
        stages.append(model_stage(parts, stage, first_layer, held=held, received_bytes=received))
        first_layer, received = first_layer + stage.blocks, stages[-1].message_bytes
    holders = Counter(name for stage in stages for name in stage.copies)
    return tuple(
        replace(stage, tied_elements=sum(size for name, size in stage.copies.items() if holders[name] > 1))
        for stage in stages
    )


def _unnamed(stages: tuple[StageUnits, ...]) -> tuple[StageUnits, ...]:
    """Return the stages with one object for all that are alike but for the names of their units."""
    found: dict[tuple[object, ...], StageUnits] = {}
    return tuple(
        found.setdefault(
            (tuple(map(id, stage.units)), stage.message_bytes, stage.tied_elements, tuple(stage.copies)),
            replace(stage, names=("",) * len(stage.names)),
        )
        for stage in stages
    )


def _role(
    prices: KernelPrices,
    script: PipelineScript,
    chunks: tuple[Chunk, ...],
    rank: int,
    training: Training,
    strategy: Strategy,
    software: Software,
    norm: bool,
    host: HostCosts | None,
    compiler: SegmentCompiler,
    blocks: Blocks,
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
    messages_bytes = tuple(chunk.parts.message_bytes for chunk in chunks)
    scattered = strategy.scatter_gather and strategy.tp > 1 and not strategy.sequence_parallel
    writer = RoleWriter(
        prices=prices,
        script=script,
        rank=rank,
        chunks=held,
        messages_bytes=messages_bytes,
        scattered=strategy.tp if scattered else 1,
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
        optimizer_bytes=working_bytes(
            sum(plan.optimizer_elements for plan in plans),
            max((_largest(chunk) for chunk in held.values()), default=0),
            training,
            software,
        ),
        norm=norm,
        replicated_bytes=reduced_bytes(lambda part: part.replicated_elements) if replicated else 0,
        tied_bytes=reduced_bytes(lambda part: part.tied_elements),
        mirrored_bytes=0 if placement.mirrored_from is None else gradient * sum(p.optimizer_elements for p in plans),
        host=host,
        norm_read=norm_is_read(strategy, training),
        compiler=compiler,
        blocks=blocks,
    )
    streams = writer.write()
    resident = {
        "weights": sum(plan.weights_bytes for plan in plans)
        + kept_copy_bytes(kept_fp8)
        + sum(part.buffer_bytes for part in parts),
        "gradients": sum(plan.gradients_bytes - sum(plan.dropped_bytes) for plan in plans),
        "optimizer": sum(plan.optimizer_bytes for plan in plans),
        "buckets": sum(plan.buckets_bytes for plan in plans),
        "dummy gradients": dummy_gradient_bytes(
            [unit for part in parts for unit in part.units], software, training.precision.bytes
        ),
        "workspaces": workspace_bytes(prices.gpu, software) + (strategy.tp * max(messages_bytes) if replicated else 0),
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


def _largest(chunk: Chunk) -> int:
    """Return the elements of a stage's largest weight that one rank updates."""
    largest = max((weight.elements for weight in chunk.parts.weights.gradients), default=0)
    return shard_elements(largest, chunk.plan.gradient_shards)


def _fp8_copies(elements: int, training: Training, tensors: int) -> tuple[MemoryBound, ...]:
    """Cast of the weights for the next step's GEMMs, where copies are kept and an optimizer changes the weights."""
    if not elements or training.optimizer == "none":
        return ()
    moved = elements * training.param_dtype.bytes + kept_copy_bytes(elements)
    return (MemoryBound(name="fp8_weight_cast", bytes=moved, op_class="optimizer", kernels=tensors),)

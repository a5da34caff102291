"""Write the program of one pipeline rank: its schedule over the chunks that it holds, and the optimizer step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from simgpu.costs.optimizer import NORM
from simgpu.lower.chunk import ChunkWriter
from simgpu.lower.emitter import Blocks, Emitter
from simgpu.lower.kernels import KernelPrices
from simgpu.lower.offload import host_step, store_weights
from simgpu.lower.pipeline import PipelineMessages, PipelineScript
from simgpu.lower.segments import SegmentCompiler
from simgpu.lower.stage_units import StageUnits
from simgpu.parallel.data_parallel import DataParallelPlan
from simgpu.parallel.messages import Message
from simgpu.parallel.schedules import Action
from simgpu.program import COMPUTE, Collective, Instruction
from simgpu.workload.host_costs import HostCosts
from simgpu.workload.op import MemoryBound

NORM_BYTES = 4  # one fp32 number
TEMPORARIES = "optimizer temporaries"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One stage of the model, and what data parallelism does to it."""

    parts: StageUnits
    plan: DataParallelPlan
    output_bytes: int = 0  # what it sends on, where that is kept until its backward


@dataclass(slots=True)
class RoleWriter:
    """Everything that one pipeline rank's program is made of.

    Parameters
    ----------
    script : PipelineScript
    rank : int
        Pipeline rank.
    chunks : mapping of int to Chunk
        The stages that the rank holds.
    optimizer : tuple of MemoryBound
        The optimizer step, up to ``grad_norm`` before the norm's reduction. Empty without an optimizer.
    messages_bytes : tuple of int
    scattered : int
        As `PipelineMessages` has them.
    optimizer_bytes : int
        Tensors that exist only while the optimizer updates.
    norm : bool
        The norm needs a reduction over other ranks.
    replicated_bytes : int
        Gradients of norms that each tensor-parallel rank saw a part of (sequence parallelism); 0 without it.
    tied_bytes : int
        Gradient of a weight that another rank holds too; 0 when there is none.
    mirrored_bytes : int
        Gradients of stages that another pipeline rank holds as well (DualPipe); 0 when there are none.
    host : HostCosts or None
        What the CPU needs to issue all this; None when that costs nothing.
    norm_read : bool
        The CPU reads the gradients' norm or its check for infinities before it issues the optimizer step.
    compiler : SegmentCompiler
        May be shared by ranks.
    blocks : dict
        Of ranks that share the stages that they write about; a rank's own where empty.
    """

    prices: KernelPrices
    script: PipelineScript
    rank: int
    chunks: Mapping[int, Chunk]
    messages_bytes: tuple[int, ...]
    optimizer: tuple[MemoryBound, ...]
    norm: bool
    replicated_bytes: int
    tied_bytes: int
    optimizer_bytes: int = 0
    mirrored_bytes: int = 0
    scattered: int = 1
    host: HostCosts | None = None
    norm_read: bool = False
    compiler: SegmentCompiler | None = None
    blocks: Blocks = field(default_factory=dict)
    emitter: Emitter = field(init=False)

    def __post_init__(self) -> None:
        self.emitter = Emitter(host=self.host, blocks=self.blocks)

    def write(self) -> Mapping[str, Sequence[Instruction]]:
        """Return the streams of one step."""
        messages = PipelineMessages(self.emitter, self.script, self.rank, self.messages_bytes, self.scattered)
        compiler = self.compiler or SegmentCompiler(self.prices)
        order = self.script.schedule.order(self.rank)
        writers = {
            stage: ChunkWriter(
                self.emitter,
                compiler,
                chunk.parts,
                chunk.plan,
                [action for action in order if action.stage == stage],
                chunk.output_bytes,
                self.script.schedule.run_microbatches if self.script.schedule.runs > 1 else None,
            )
            for stage, chunk in self.chunks.items()
        }
        for writer in writers.values():
            writer.begin()
        early = early_weights(order, self.rank)
        for item in self.script.rows[self.rank]:
            if isinstance(item, Message):
                messages.post(item)
            else:
                for stage in early.get(item, ()):
                    writers[stage].expect_weights(item.microbatch)
                messages.before(item)
                writers[item.stage].write(item)
        messages.finish()
        for writer in writers.values():
            writer.finish()
        self._optimizer_step()
        for writer in writers.values():
            writer.update()
        return self.emitter.finished()

    def _optimizer_step(self) -> None:
        emitter = self.emitter
        if self.mirrored_bytes:
            self._blocking("mirror", "reduce gradients of both directions", "all_reduce", self.mirrored_bytes)
        if self.replicated_bytes:
            self._blocking("tp", "reduce norm gradients", "all_reduce", self.replicated_bytes)
        if self.tied_bytes:
            self._blocking("embedding", "reduce tied embedding", "all_reduce", self.tied_bytes)
        ops = self.optimizer
        norm = 1 + next((i for i, op in enumerate(ops) if op.name == NORM), -1)
        emitter.kernels("gradient norm", self.prices.kernels(ops[:norm]), phase="optimizer")
        if self.norm:
            self._blocking("norm", "reduce gradient norm", "all_reduce", NORM_BYTES)
        if self.norm_read and self.optimizer:
            emitter.synchronize()
        plans = [chunk.plan for chunk in self.chunks.values()]
        if any(plan.offload is not None and plan.offload.update_elements for plan in plans):
            host_step(emitter, plans)
        else:
            emitter.alloc(self.optimizer_bytes, TEMPORARIES)
            emitter.kernels("optimizer", self.prices.kernels(ops[norm:]), phase="optimizer")
            emitter.free(self.optimizer_bytes, TEMPORARIES)
            store_weights(emitter, plans)

    def _blocking(self, communicator: str, name: str, kind: str, size_bytes: int) -> None:
        collective = Collective(name=name, communicator=communicator, kind=kind, bytes=size_bytes, phase="optimizer")
        self.emitter.wait(self.emitter.transfer(communicator, collective, after=self.emitter.record(COMPUTE)))


def early_weights(order: Sequence[Action], position: int) -> dict[Action, tuple[int, ...]]:
    """Say before which actions a rank with several chunks begins to gather the updated weights of which of them.

    Those of the first two before anything else, and those of every other when a chunk's predecessor begins its first
    forward on the pipeline's first rank: all ranks gather at the same time, so that none slows the others down alone
    (NVIDIA/Megatron-LM core/pipeline_parallel/schedules.py, param_sync_func; ``--align-param-gather`` is on there).

    Parameters
    ----------
    order : sequence of Action
        The rank's.
    position : int
        Of the rank in the pipeline: it is so many forwards behind the first.

    Returns
    -------
    dict of Action to tuple of int
        Stages; empty for a rank with one chunk.

    Examples
    --------
    >>> order = [Action(stage, "F", microbatch) for stage in (1, 3, 5) for microbatch in (0, 1)]
    >>> [(action.stage, action.microbatch, stages) for action, stages in early_weights(order, 1).items()]
    [(1, 0, (1, 3)), (1, 1, (5,))]
    """
    forwards = [action for action in order if action.kind == "F"]
    stages = list(dict.fromkeys(action.stage for action in forwards))
    if len(stages) == 1:
        return {}
    found = {forwards[0]: tuple(stages[:2])}
    for before, stage in pairwise(stages[1:]):
        first = next(index for index, action in enumerate(forwards) if action.stage == before)
        at = forwards[max(0, first - position)]
        found[at] = (*found.get(at, ()), stage)
    return found

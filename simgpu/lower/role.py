"""Write the program of one pipeline stage: schedule x units x data parallelism x optimizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from simgpu.lower.emitter import Emitter
from simgpu.lower.gradients import GradientReductions
from simgpu.lower.kernels import KernelPrices
from simgpu.lower.pipeline import PipelineMessages
from simgpu.lower.segments import Segment, SegmentCompiler
from simgpu.lower.stage_units import StageUnits
from simgpu.lower.weights import WeightGathers
from simgpu.parallel.data_parallel import DataParallelPlan
from simgpu.parallel.schedules import Action
from simgpu.program import COMPUTE, Collective, Instruction
from simgpu.workload.op import MemoryBound
from simgpu.workload.unit import Exchange, Join

NORM_BYTES = 4  # one fp32 number
ACTIVATIONS, LOGITS, RECOMPUTED, WORKING = "activations", "logits", "recomputed activations", "backward gradients"


@dataclass(slots=True)
class RoleWriter:
    """Everything that one stage's program is made of.

    Parameters
    ----------
    stage, stages : int
    parts : StageUnits
    plan : DataParallelPlan
    actions : sequence of Action
        The stage's row of the pipeline schedule.
    optimizer : tuple of MemoryBound
        The optimizer step; its first op reads the gradients for their norm. Empty without an optimizer.
    message_bytes : int
        Activation sent from stage to stage.
    norm : bool
        The norm needs a reduction over other ranks.
    replicated_bytes : int
        Gradients of norms that each tensor-parallel rank saw a part of (sequence parallelism); 0 without it.
    tied_bytes : int
        Gradient of a weight that another stage holds too; 0 when there is none.
    """

    prices: KernelPrices
    stage: int
    stages: int
    parts: StageUnits
    plan: DataParallelPlan
    actions: Sequence[Action]
    message_bytes: int
    overlap_p2p: bool
    optimizer: tuple[MemoryBound, ...]
    norm: bool
    replicated_bytes: int
    tied_bytes: int
    emitter: Emitter = field(default_factory=Emitter)
    _compiler: SegmentCompiler = field(init=False)
    _weights: WeightGathers = field(init=False)
    _gradients: GradientReductions = field(init=False)

    def __post_init__(self) -> None:
        self._compiler = SegmentCompiler(self.prices)
        self._weights = WeightGathers.of(self.plan, self.emitter, self.prices, self.parts.names)
        self._gradients = GradientReductions(self.emitter, self.plan, self.prices)

    def write(self) -> Mapping[str, tuple[Instruction, ...]]:
        """Return the streams of one step."""
        messages = PipelineMessages(self.emitter, self.stage, self.stages, self.message_bytes, self.overlap_p2p)
        backwards = [action.microbatch for action in self.actions if action.kind == "B"]
        for action in self.actions:
            messages.before(action)
            if action.kind == "F":
                self._forward(action.microbatch)
            else:
                self._backward(
                    action.microbatch,
                    first_microbatch=action.microbatch == backwards[0],
                    last_microbatch=action.microbatch == backwards[-1],
                )
            messages.after(action)
        messages.finish()
        self._gradients.join()
        self._optimizer_step()
        return {name: tuple(instructions) for name, instructions in self.emitter.streams.items()}

    def _forward(self, microbatch: int) -> None:
        units = self.parts.units
        for index, unit in enumerate(units):
            upcoming = range(index + 1, len(units))
            self._weights.acquire(index, upcoming, phase="forward", microbatch=microbatch)
            self.emitter.alloc(unit.saved_bytes, ACTIVATIONS)
            self.emitter.alloc(unit.logits_bytes, LOGITS)
            self._run(self._compiler.forward(unit), index, "forward", microbatch)
            self._weights.release(index, upcoming, backward=False, last_microbatch=False)

    def _backward(self, microbatch: int, *, first_microbatch: bool, last_microbatch: bool) -> None:
        units, store = self.parts.units, self.plan.store
        for index in reversed(range(len(units))):
            unit = units[index]
            upcoming = tuple(reversed(range(index)))
            self._weights.acquire(index, upcoming, phase="backward", microbatch=microbatch)
            self._gradients.open(index)
            self.emitter.alloc(unit.backward_bytes, WORKING)
            if unit.recompute:
                self.emitter.alloc(unit.recomputed_bytes, RECOMPUTED)
                self._run(self._compiler.recompute(unit), index, "recompute", microbatch)
            marks = self._gradients.marks(index, last_microbatch=last_microbatch)
            stored = store.first_bytes if first_microbatch else store.later_bytes
            self._run(self._compiler.backward(unit, marks, stored), index, "backward", microbatch)
            if unit.recompute:
                self.emitter.free(unit.recomputed_bytes, RECOMPUTED)
            self.emitter.free(unit.backward_bytes, WORKING)
            self.emitter.free(unit.logits_bytes, LOGITS)
            self.emitter.free(unit.saved_bytes, ACTIVATIONS)
            self._weights.release(index, upcoming, backward=True, last_microbatch=last_microbatch)

    def _run(self, segments: Sequence[Segment], index: int, phase: str, microbatch: int) -> None:
        emitter, name = self.emitter, self.parts.names[index]
        exchanges: dict[str, int] = {}
        for segment in segments:
            if isinstance(segment, tuple):
                emitter.kernels(f"{phase} {name}", segment, phase=phase, microbatch=microbatch, unit=name)
            elif isinstance(segment, Exchange):
                collective = Collective(
                    name=f"{segment.tag} {name}",
                    communicator="tp",
                    kind=segment.kind,
                    bytes=segment.bytes,
                    phase=phase,
                    microbatch=microbatch,
                )
                exchanges[segment.tag] = emitter.transfer("tp", collective, after=emitter.record())
            elif isinstance(segment, Join):
                emitter.wait(exchanges.pop(segment.tag))
            else:
                self._gradients.ready(index, segment.parameters, microbatch=microbatch)

    def _optimizer_step(self) -> None:
        emitter = self.emitter
        if self.replicated_bytes:
            self._blocking("tp", "reduce norm gradients", "all_reduce", self.replicated_bytes)
        if self.tied_bytes:
            self._blocking("embedding", "reduce tied embedding", "all_reduce", self.tied_bytes)
        emitter.kernels("gradient norm", self.prices.kernels(self.optimizer[:1]), phase="optimizer")
        if self.norm:
            self._blocking("norm", "reduce gradient norm", "all_reduce", NORM_BYTES)
        emitter.kernels("optimizer", self.prices.kernels(self.optimizer[1:]), phase="optimizer")
        gathered = None
        for size in self.plan.weight_gathers_bytes:
            gather = Collective(
                name="gather updated weights", communicator="dp", kind="all_gather", bytes=size, phase="optimizer"
            )
            gathered = emitter.transfer("dp", gather, after=emitter.record())
        if gathered is not None:
            emitter.wait(gathered)

    def _blocking(self, communicator: str, name: str, kind: str, size_bytes: int) -> None:
        collective = Collective(name=name, communicator=communicator, kind=kind, bytes=size_bytes, phase="optimizer")
        self.emitter.wait(self.emitter.transfer(communicator, collective, after=self.emitter.record(COMPUTE)))

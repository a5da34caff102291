"""Write the program of one pipeline stage: schedule x units x data parallelism x optimizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from simgpu.hardware.gpu import Gpu
from simgpu.lower.emitter import Emitter
from simgpu.lower.gradients import GradientReductions
from simgpu.lower.pipeline import PipelineMessages
from simgpu.lower.pricing import PassCompiler, Piece, kernels
from simgpu.lower.stage_units import StageUnits
from simgpu.lower.weights import WeightGathers
from simgpu.parallel.data_parallel import DataParallelPlan
from simgpu.parallel.schedules import Action
from simgpu.program import COMPUTE, Collective, Instruction
from simgpu.workload.op import MemoryBound
from simgpu.workload.unit import Exchange, Join

NORM_BYTES = 4  # one fp32 number
ACTIVATIONS, LOGITS, RECOMPUTED = "activations", "logits", "recomputed activations"


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

    gpu: Gpu
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
    _compiler: PassCompiler = field(init=False)
    _weights: WeightGathers = field(init=False)
    _gradients: GradientReductions = field(init=False)

    def __post_init__(self) -> None:
        self._compiler = PassCompiler(self.gpu)
        self._weights = WeightGathers.of(self.plan, self.emitter, self.parts.names)
        self._gradients = GradientReductions(self.emitter, self.plan, self.gpu)

    def write(self) -> Mapping[str, tuple[Instruction, ...]]:
        """Return the streams of one step."""
        messages = PipelineMessages(self.emitter, self.stage, self.stages, self.message_bytes, self.overlap_p2p)
        final = [action.microbatch for action in self.actions if action.kind == "B"][-1]
        for action in self.actions:
            messages.before(action)
            if action.kind == "F":
                self._forward(action.microbatch)
            else:
                self._backward(action.microbatch, last_microbatch=action.microbatch == final)
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
            self.emitter.alloc(unit.transient_bytes, LOGITS)
            self._run(self._compiler.compile(unit.forward), index, "forward", microbatch)
            self._weights.release(index, upcoming, backward=False)

    def _backward(self, microbatch: int, *, last_microbatch: bool) -> None:
        units = self.parts.units
        for index in reversed(range(len(units))):
            unit = units[index]
            upcoming = tuple(reversed(range(index)))
            self._weights.acquire(index, upcoming, phase="backward", microbatch=microbatch)
            self._gradients.open(index, tuple(range(index + 1, len(units))))
            if unit.recompute:
                self.emitter.alloc(unit.recomputed_bytes, RECOMPUTED)
                pieces = self._compiler.compile(unit.recompute, recompute=True)
                self._run(pieces, index, "recompute", microbatch)
            marks = self._gradients.marks(index, last_microbatch=last_microbatch)
            self._run(self._compiler.compile(unit.backward, marks=marks), index, "backward", microbatch)
            if unit.recompute:
                self.emitter.free(unit.recomputed_bytes, RECOMPUTED)
            self.emitter.free(unit.transient_bytes, LOGITS)
            self.emitter.free(unit.saved_bytes, ACTIVATIONS)
            self._weights.release(index, upcoming, backward=True)

    def _run(self, pieces: Sequence[Piece], index: int, phase: str, microbatch: int) -> None:
        emitter, name = self.emitter, self.parts.names[index]
        exchanges: dict[str, int] = {}
        for piece in pieces:
            if isinstance(piece, tuple):
                emitter.kernels(f"{phase} {name}", piece, phase=phase, microbatch=microbatch, unit=name)
            elif isinstance(piece, Exchange):
                collective = Collective(
                    name=f"{piece.tag} {name}",
                    communicator="tp",
                    kind=piece.kind,
                    bytes=piece.bytes,
                    phase=phase,
                    microbatch=microbatch,
                )
                exchanges[piece.tag] = emitter.transfer("tp", collective, after=emitter.record())
            elif isinstance(piece, Join):
                emitter.wait(exchanges.pop(piece.tag))
            else:
                self._gradients.ready(index, piece.parameters, microbatch=microbatch)

    def _optimizer_step(self) -> None:
        emitter = self.emitter
        if self.replicated_bytes:
            self._blocking("tp", "reduce norm gradients", "all_reduce", self.replicated_bytes)
        if self.tied_bytes:
            self._blocking("embedding", "reduce tied embedding", "all_reduce", self.tied_bytes)
        emitter.kernels("gradient norm", kernels(self.optimizer[:1], self.gpu), phase="optimizer")
        if self.norm:
            self._blocking("norm", "reduce gradient norm", "all_reduce", NORM_BYTES)
        emitter.kernels("optimizer", kernels(self.optimizer[1:], self.gpu), phase="optimizer")
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

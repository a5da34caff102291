"""The Program of torch.nn.DataParallel: GPU 0 hands out weights and inputs, and takes back outputs and gradients.

Per microbatch: GPU 0 sends every GPU its inputs and a copy of the weights; each runs forward; the outputs come to
GPU 0, which computes the loss and sends each its share of the gradient; each runs backward; the gradients are summed on
GPU 0. Only GPU 0 has an optimizer. All this happens on the GPUs' compute streams, one thing after the other: a gather
waits for the last forward, the sum for the last backward.

One process issues it. Python's interpreter lock lets one thread run at a time, so that the CPU's time for n forwards
is n times that of one; autograd's engine, in C++, has a thread for every GPU, so that backwards are issued at once
(pytorch/pytorch torch/nn/parallel/{data_parallel,replicate,parallel_apply,_functions}.py,
torch/csrc/autograd/engine.cpp).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from simgpu.costs.optimizer import optimizer_ops
from simgpu.lower.chunk import WORKING, ChunkWriter
from simgpu.lower.emitter import Emitter, issue_costs_ns
from simgpu.lower.kernels import KernelPrices
from simgpu.lower.overheads import COMMUNICATOR_BYTES, CONTEXT_BYTES, workspace_bytes
from simgpu.lower.segments import SegmentCompiler
from simgpu.lower.stage_units import StageUnits
from simgpu.parallel.data_parallel import DataParallelPlan
from simgpu.parallel.data_parallel.data_parallel_threads import coalesced
from simgpu.parallel.data_parallel.plan import GradientStore
from simgpu.parallel.schedules import Action
from simgpu.program import HOST, Collective, Compute, Instruction, Issue, Recv, Role, Send
from simgpu.workload.host_costs import HostCosts
from simgpu.workload.op import MemoryBound, Op
from simgpu.workload.software import Software
from simgpu.workload.training import Training
from simgpu.workload.unit import Unit

DP: Final = "dp"
LOSS: Final = ("loss", "class_loss")
"""Ops whose names begin so are computed on GPU 0, on all outputs."""
REPLICA, OUTPUTS = "replica weights", "gathered outputs"
TOKEN_ID_BYTES: Final = 8


@dataclass(slots=True)
class Ledger(Emitter):
    """An Emitter that lists what has to be issued, in order; who issues it is decided later."""

    issued: list[tuple[str, int, str]] = field(default_factory=list)  # stream, position, phase

    def _issue(self, stream: str, work: Compute | Collective | Send | Recv) -> None:
        draft = self.open(stream)
        draft.append(work)
        self.issued.append((stream, len(draft) - 1, work.phase))

    def repeat(self, key: Hashable, write: Callable[[], None], *, microbatch: int) -> None:
        """Write it anew every time: others issue it in an order of their own."""
        write()

    def drain(self) -> list[tuple[str, int, str]]:
        """Return what was written since the last call."""
        found, self.issued = self.issued, []
        return found


@dataclass(slots=True)
class ThreadsWriter:
    """The two roles of DataParallel: GPU 0, whose streams include the CPU's threads, and every other GPU.

    Parameters
    ----------
    prices : KernelPrices
    parts : StageUnits
        The whole model.
    plan : DataParallelPlan
        Of GPU 0.
    training : Training
    software : Software
    gpus : int
    host : HostCosts or None
        What the CPU needs to issue work; None when that costs nothing.
    """

    prices: KernelPrices
    parts: StageUnits
    plan: DataParallelPlan
    training: Training
    software: Software
    gpus: int
    host: HostCosts | None
    lead: Ledger = field(default_factory=Ledger)
    other: Ledger = field(default_factory=Ledger)

    def write(self) -> tuple[dict[str, Sequence[Instruction]], dict[str, Sequence[Instruction]]]:
        """Return the streams of GPU 0 and those of another GPU."""
        head, loss = _without_loss(self.parts.units[-1])
        own = _output_bytes(self.parts.units[-1], self.training, self.software)
        units = (*self.parts.units[:-1], replace(head, logits_bytes=own, backward_bytes=0))
        writers = [self._chunk(ledger, replace(self.parts, units=units)) for ledger in (self.lead, self.other)]
        for microbatch in range(self.training.accumulation):
            self._hand_out(microbatch)
            for writer in writers:
                writer.write(Action(0, "F", microbatch))
            self._issue_in_turns(self.lead.drain(), self.other.drain())
            self._loss(loss, own, microbatch)
            for writer in writers:
                writer.write(Action(0, "B", microbatch))
            self._issue_by_threads(self.lead.drain(), self.other.drain())
            self._collect(microbatch)
        self._optimizer_step()
        return self.lead.finished(), self.other.finished()

    def _chunk(self, ledger: Ledger, parts: StageUnits) -> ChunkWriter:
        cast = self.plan.store.first_bytes
        plan = replace(self.plan, store=GradientStore(first_bytes=cast, later_bytes=cast))
        actions = [Action(0, kind, m) for m in range(self.training.accumulation) for kind in "FB"]
        return ChunkWriter(ledger, SegmentCompiler(self.prices), parts, plan, actions)

    def _hand_out(self, microbatch: int) -> None:
        """Scatter the inputs and broadcast the weights, in buffers that GPU 0 fills."""
        ids = TOKEN_ID_BYTES * self.training.tokens * self.gpus
        self._all("inputs to GPUs", "scatter", ids, "forward", microbatch)
        size, weights = self.training.param_dtype.bytes, self.parts.weights
        self.other.alloc(weights.stored_elements * size, REPLICA)
        for bucket in coalesced(weights, size):
            moved = size * sum(weight.elements for weight in bucket)
            if len(bucket) > 1:
                self._copy("flatten weights", 2 * moved, "forward", microbatch)
            self._all("weights to GPUs", "broadcast", moved, "forward", microbatch)
        if weights.buffer_bytes:
            self._all("buffers to GPUs", "broadcast", weights.buffer_bytes, "forward", microbatch)
        self._issue_from_main()

    def _loss(self, loss: Unit, own: int, microbatch: int) -> None:
        """Gather the outputs, run the loss forward and backward on all of them, and scatter its gradient."""
        whole = self.parts.units[-1]
        kept, gradient = self.gpus * max(whole.logits_bytes, own), self.gpus * (whole.backward_bytes + own)
        self.lead.alloc(kept, OUTPUTS)
        self._all("outputs to GPU 0", "gather", self.gpus * own, "forward", microbatch)
        self._run_loss("loss", loss.forward, "forward", microbatch)
        self._issue_from_main()
        if self.host is not None:
            self.lead.open(HOST)
        self.lead.alloc(gradient, WORKING)
        self._run_loss("gradient of loss", loss.backward, "backward", microbatch)
        self._all("gradients of outputs", "scatter", self.gpus * own, "backward", microbatch)
        self._issue_from_main()
        self.lead.free(gradient, WORKING)
        self.lead.free(kept, OUTPUTS)
        weights = self.parts.weights.elements * self.training.grad_dtype.bytes
        self.lead.alloc(weights, f"{REPLICA}' gradients")
        self.other.alloc(weights, f"{REPLICA}' gradients")

    def _collect(self, microbatch: int) -> None:
        """Sum the gradients on GPU 0, in buffers that every GPU fills, and drop the copies of the weights."""
        size, weights = self.training.grad_dtype.bytes, self.parts.weights
        for bucket in coalesced(weights, size, trained=True):
            moved = size * sum(weight.elements for weight in bucket)
            if len(bucket) > 1:
                for ledger in (self.lead, self.other):
                    self._copy("flatten gradients", 2 * moved, "backward", microbatch, ledger)
            self._all("gradients to GPU 0", "reduce", moved, "backward", microbatch)
        if microbatch:
            self._copy("add gradients", 3 * weights.elements * size, "backward", microbatch)
        self.other.free(weights.stored_elements * self.training.param_dtype.bytes, REPLICA)
        for ledger in (self.lead, self.other):
            ledger.free(weights.elements * size, f"{REPLICA}' gradients")
        self._issue_from_main()

    def _optimizer_step(self) -> None:
        tensors = len(self.parts.weights.gradients)
        ops = optimizer_ops(self.plan.optimizer_elements, self.training, tensors, software=self.software)
        self.lead.kernels("optimizer", self.prices.kernels(ops), phase="optimizer")
        self._issue_from_main()

    def _all(self, name: str, kind: str, size_bytes: int, phase: str, microbatch: int) -> None:
        """Run a collective of all GPUs between what is before and behind it on their compute streams."""
        if size_bytes:
            for ledger in (self.lead, self.other):
                collective = Collective(
                    name=name, communicator=DP, kind=kind, bytes=size_bytes, phase=phase, microbatch=microbatch
                )
                ledger.wait(ledger.transfer(DP, collective, after=ledger.record()))

    def _run_loss(self, name: str, items: Sequence[object], phase: str, microbatch: int) -> None:
        ops = [replace(op, bytes=op.bytes * self.gpus) for op in items if isinstance(op, MemoryBound)]
        self.lead.kernels(name, self.prices.kernels(ops), phase=phase, microbatch=microbatch, unit="head")

    def _copy(self, name: str, size_bytes: int, phase: str, microbatch: int, ledger: Ledger | None = None) -> None:
        op = MemoryBound(name=name, bytes=size_bytes)
        (ledger or self.lead).kernels(name, self.prices.kernels([op]), phase=phase, microbatch=microbatch)

    def _issue_from_main(self) -> None:
        """Let the main thread issue what has just been written, GPU after GPU."""
        self._issue_in_turns(self.lead.drain(), self.other.drain())

    def _issue_in_turns(self, lead: list[tuple[str, int, str]], other: list[tuple[str, int, str]]) -> None:
        """Issue the n-th instruction of every GPU before the next of any: threads take turns under the lock."""
        for turn in range(max(len(lead), len(other))):
            if turn < len(lead):
                self._issue(HOST, lead[turn], 0)
            if turn < len(other):
                for member in range(1, self.gpus):
                    self._issue(HOST, other[turn], member)

    def _issue_by_threads(self, lead: list[tuple[str, int, str]], other: list[tuple[str, int, str]]) -> None:
        """Issue the backward of every GPU from a thread of its own; the main thread waits for all of them."""
        if self.host is None:
            return
        begin, ends = self.lead.record(HOST), []
        for member in range(self.gpus):
            thread = f"{HOST} {member}"
            self.lead.wait(begin, thread)
            for item in lead if member == 0 else other:
                self._issue(thread, item, member)
            ends.append(self.lead.record(thread))
        for end in ends:
            self.lead.wait(end, HOST)

    def _issue(self, thread: str, item: tuple[str, int, str], member: int) -> None:
        if self.host is None:
            return
        stream, position, phase = item
        op_ns, launch_ns = issue_costs_ns(self.host, phase)
        issue = Issue(stream=stream, instruction=position, op_ns=op_ns, launch_ns=launch_ns, member=member)
        self.lead.open(thread).append(issue)


def _without_loss(head: Unit) -> tuple[Unit, Unit]:
    """Return the last unit without its loss, and the loss."""

    def split(items: Sequence[object], wanted: Callable[[object], bool]) -> tuple[object, ...]:
        return tuple(item for item in items if wanted(item))

    def is_loss(item: object) -> bool:
        return isinstance(item, Op) and item.name.startswith(LOSS)

    def is_rest(item: object) -> bool:
        return not is_loss(item)

    rest, loss = (
        replace(head, forward=split(head.forward, wanted), backward=split(head.backward, wanted))  # type: ignore[arg-type]
        for wanted in (is_rest, is_loss)
    )
    return rest, loss


def _output_bytes(head: Unit, training: Training, software: Software) -> int:
    """Bytes of the outputs of one GPU in the activations' format; the loss keeps 4 B more of each unless fused."""
    element = training.precision.bytes
    kept = element if software.fused_cross_entropy else element + 4
    return head.logits_bytes * element // kept


def threaded_roles(
    prices: KernelPrices,
    parts: StageUnits,
    plan: DataParallelPlan,
    training: Training,
    software: Software,
    gpus: int,
    host: HostCosts | None,
) -> tuple[Role, Role]:
    """Return the role of GPU 0 and that of every other GPU; parameters as of `ThreadsWriter`."""
    lead, other = ThreadsWriter(
        prices=prices, parts=parts, plan=plan, training=training, software=software, gpus=gpus, host=host
    ).write()
    process = {"workspaces": workspace_bytes(prices.gpu, software), "communication": COMMUNICATOR_BYTES}
    states = {
        "weights": plan.weights_bytes + parts.buffer_bytes,
        "gradients": plan.gradients_bytes,
        "optimizer": plan.optimizer_bytes,
    }

    def role(name: str, streams: Mapping[str, Sequence[Instruction]], resident: Mapping[str, int]) -> Role:
        return Role(
            name=name,
            stages=(0,),
            position={},
            streams=streams,
            resident_bytes={category: size for category, size in resident.items() if size},
            capacity_bytes=prices.gpu.memory_bytes,
            device=prices.gpu.name,
        )

    context = {"context": CONTEXT_BYTES}
    return role("GPU 0", lead, states | process | context), role("other GPUs", other, process | context)

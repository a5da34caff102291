"""Write a rank's streams instruction by instruction."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from simgpu.lower.stream_draft import Draft, instance
from simgpu.program import (
    COMPUTE,
    HOST,
    Alloc,
    Collective,
    Compute,
    Free,
    Instruction,
    Issue,
    Kernel,
    Record,
    Recv,
    Send,
    Wait,
)
from simgpu.script import Block, Use
from simgpu.workload.host_costs import HostCosts

Blocks: TypeAlias = dict[Hashable, Block | None]
"""What was written to be repeated, by key; None for what cannot stand elsewhere."""


@dataclass(slots=True)
class Emitter:
    """Streams under construction, and the event numbers that tie them together.

    With ``host`` the CPU issues what is written in the order in which it is written, on a stream of its own; without,
    issuing costs nothing. Emitters that share ``blocks`` write the same under the same key.
    """

    streams: dict[str, Draft] = field(default_factory=lambda: {COMPUTE: Draft(COMPUTE)})
    host: HostCosts | None = None
    blocks: Blocks = field(default_factory=dict)
    _events: int = 0
    _repeating: bool = False

    def finished(self) -> dict[str, Sequence[Instruction]]:
        """Return the streams."""
        return {name: draft.finished() for name, draft in self.streams.items()}

    def repeat(self, key: Hashable, write: Callable[[], None], *, microbatch: int) -> None:
        """Write what is the same whenever the key is: the first time by calling, then by reference.

        Within another one it is a part of that.

        Parameters
        ----------
        key : hashable
        write : callable
            Writes it, and leaves nothing behind that later writing depends on.
        microbatch : int
            The only difference between one time and the next.
        """
        if self._repeating:
            write()
            return
        block = self.blocks.get(key)
        if block is not None and self._fits(block):
            first = {name: len(self.open(name)) for name in block.streams}
            use = Use(block=block, first=first, event=self._events, microbatch=microbatch)
            self._events += block.events
        else:
            begin, event = {name: len(draft) for name, draft in self.streams.items()}, self._events
            self._repeating = True
            write()
            self._repeating = False
            if key in self.blocks:
                return
            block = self.blocks[key] = self._written(begin, event, microbatch)
            if block is None:
                return
            first = {name: begin.get(name, 0) for name in block.streams}
            use = Use(block=block, first=first, event=event, microbatch=microbatch)
        for name in block.streams:
            self.open(name).use(use)

    def _written(self, begin: Mapping[str, int], event: int, microbatch: int) -> Block | None:
        """Return what was written since; None where it cannot stand elsewhere."""
        streams: dict[str, tuple[Instruction, ...]] = {}
        for name, draft in self.streams.items():
            added = draft.cut(begin.get(name, 0))
            if not added:
                continue
            items = instance(added, begin, event, microbatch)
            if items is None:
                return None
            streams[name] = items
        return Block(streams=streams, events=self._events - event) if streams else None

    def _fits(self, block: Block) -> bool:
        """Whether the block's first marks would be events of their own here (``record``)."""
        return not any(
            isinstance(items[0], Record) and self.open(name).last_record is not None
            for name, items in block.streams.items()
        )

    def kernels(
        self,
        name: str,
        kernels: Sequence[Kernel],
        *,
        phase: str,
        microbatch: int = -1,
        unit: str = "",
        stream: str = COMPUTE,
    ) -> None:
        """Run kernels, on the compute stream unless they are copies beside a transfer.

        CUDA_LAUNCH_BLOCKING makes an instruction of every kernel, for the CPU to wait for.
        """
        blocking = self.host is not None and self.host.launch_blocking
        runs = [(kernel,) for kernel in kernels] if blocking else [tuple(kernels)] if kernels else []
        for run in runs:
            work = Compute(
                name=name,
                kernels=run,
                duration_ns=sum(kernel.duration_ns for kernel in run),
                phase=phase,
                microbatch=microbatch,
                unit=unit,
            )
            self._issue(stream, work)
            if blocking:
                self.synchronize(stream)

    def record(self, stream: str = COMPUTE) -> int:
        """Mark this point of a stream; two marks of the same point are one event."""
        draft = self.open(stream)
        last = draft.last_record
        if last is not None:
            return last
        self._events += 1
        draft.append(Record(self._events))
        return self._events

    def wait(self, event: int, stream: str = COMPUTE) -> None:
        """Hold a stream until an event of another one."""
        self.open(stream).append(Wait(event))

    def transfer(self, stream: str, instruction: Collective | Send | Recv, *, after: int | None) -> int:
        """Queue a transfer on its stream, to start no earlier than ``after``; return the event of its end."""
        instructions = self.open(stream)
        if after is not None:
            instructions.append(Wait(after))
        self._issue(stream, instruction)
        end = self.record(stream)
        if self.host is not None and self.host.launch_blocking and isinstance(instruction, Collective):
            self.synchronize(stream)  # not for messages: NCCL launches those of both directions as one kernel
        return end

    def synchronize(self, stream: str = COMPUTE) -> None:
        """Let the CPU wait until the GPU has come to this point of a stream, before it issues more."""
        if self.host is not None:
            self.open(HOST).append(Wait(self.record(stream)))

    def occupy_host(self, name: str, time_ns: int, *, phase: str, microbatch: int) -> None:
        """Let the CPU work for a while before it issues more: on the compute stream, a kernel that takes no time."""
        if self.host is not None and time_ns:
            kernel = Kernel(name=name, op_class="memory_bound", duration_ns=0)
            work = Compute(name=name, kernels=(kernel,), duration_ns=0, phase=phase, microbatch=microbatch)
            draft = self.open(COMPUTE)
            draft.append(work)
            index = len(draft) - 1
            self.open(HOST).append(Issue(stream=COMPUTE, instruction=index, op_ns=time_ns, launch_ns=0))

    def run_python(self, name: str, ops: int, *, phase: str, microbatch: int) -> None:
        """Let Python work for as long as it takes to issue so many ops; a replayed CUDA graph runs none."""
        if self.host is not None and not self.host.cuda_graphs:
            self.occupy_host(name, ops * self.host.forward_op_ns, phase=phase, microbatch=microbatch)

    def alloc(self, size_bytes: int, category: str, stream: str = COMPUTE) -> None:
        """Take memory at this point of a stream."""
        if size_bytes:
            self.open(stream).append(Alloc(size_bytes, category))

    def free(self, size_bytes: int, category: str, stream: str = COMPUTE) -> None:
        """Give memory back at this point of a stream."""
        if size_bytes:
            self.open(stream).append(Free(size_bytes, category))

    def _issue(self, stream: str, work: Compute | Collective | Send | Recv) -> None:
        draft = self.open(stream)
        draft.append(work)
        if self.host is not None:
            op_ns, launch_ns = issue_costs_ns(self.host, work.phase, communicates=not isinstance(work, Compute))
            issue = Issue(stream=stream, instruction=len(draft) - 1, op_ns=op_ns, launch_ns=launch_ns)
            self.open(HOST).append(issue)

    def open(self, name: str) -> Draft:
        """Return a stream, which is there from now on."""
        draft = self.streams.get(name)
        if draft is None:
            draft = self.streams[name] = Draft(name)
        return draft


def issue_costs_ns(host: HostCosts, phase: str, *, communicates: bool = False) -> tuple[int, int]:
    """CPU time to issue an op in a phase of the step, and for each further kernel that the op launches.

    Backward is issued by autograd's engine; recomputation runs forward code again, and the optimizer is Python too.
    Collectives and messages pass through a process group whatever issues them.

    Examples
    --------
    >>> issue_costs_ns(HostCosts(forward_op_ns=14_000, launch_ns=5_000), "recompute")
    (14000, 5000)
    >>> issue_costs_ns(HostCosts(collective_ns=40_000, launch_ns=5_000), "backward", communicates=True)
    (40000, 5000)
    >>> issue_costs_ns(HostCosts(cuda_graphs=True, graph_node_ns=1_250), "backward")
    (1250, 1250)
    """
    if host.cuda_graphs:
        return host.graph_node_ns, host.graph_node_ns
    if communicates:
        return host.collective_ns, host.launch_ns
    return (host.backward_op_ns if phase == "backward" else host.forward_op_ns), host.launch_ns

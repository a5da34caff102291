"""Write a rank's streams instruction by instruction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from simgpu.program import COMPUTE, Alloc, Collective, Compute, Free, Instruction, Kernel, Record, Recv, Send, Wait


@dataclass(slots=True)
class Emitter:
    """Streams under construction, and the event numbers that tie them together."""

    streams: dict[str, list[Instruction]] = field(default_factory=lambda: {COMPUTE: []})
    _events: int = 0

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
        """Run kernels, on the compute stream unless they are copies beside a transfer."""
        if kernels:
            total = sum(kernel.duration_ns for kernel in kernels)
            self._stream(stream).append(
                Compute(
                    name=name,
                    kernels=tuple(kernels),
                    duration_ns=total,
                    phase=phase,
                    microbatch=microbatch,
                    unit=unit,
                )
            )

    def record(self, stream: str = COMPUTE) -> int:
        """Mark this point of a stream; two marks of the same point are one event."""
        instructions = self._stream(stream)
        if instructions and isinstance(instructions[-1], Record):
            return instructions[-1].event
        self._events += 1
        instructions.append(Record(self._events))
        return self._events

    def wait(self, event: int, stream: str = COMPUTE) -> None:
        """Hold a stream until an event of another one."""
        self._stream(stream).append(Wait(event))

    def transfer(self, stream: str, instruction: Collective | Send | Recv, *, after: int | None) -> int:
        """Queue a transfer on its stream, to start no earlier than ``after``; return the event of its end."""
        instructions = self._stream(stream)
        if after is not None:
            instructions.append(Wait(after))
        instructions.append(instruction)
        return self.record(stream)

    def alloc(self, size_bytes: int, category: str, stream: str = COMPUTE) -> None:
        """Take memory at this point of a stream."""
        if size_bytes:
            self._stream(stream).append(Alloc(size_bytes, category))

    def free(self, size_bytes: int, category: str, stream: str = COMPUTE) -> None:
        """Give memory back at this point of a stream."""
        if size_bytes:
            self._stream(stream).append(Free(size_bytes, category))

    def _stream(self, name: str) -> list[Instruction]:
        return self.streams.setdefault(name, [])

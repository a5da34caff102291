"""What the CPU has issued to one stream, and what of it the stream is done with."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from simgpu.engine.launches import Launches
from simgpu.engine.rank import StreamLoop, Walk
from simgpu.timeline import Int64

if TYPE_CHECKING:
    from simgpu.engine.host import HostThread


class Issued(NamedTuple):
    """When the CPU began to issue an instruction, and what it took from there."""

    begin_ns: int
    launches: Launches


@dataclass(slots=True, eq=False)
class LaunchQueue:
    """The launches of a stream between the CPU and the GPU.

    ``per_step`` is the number of instructions of a step that the CPU issues; over the steps their numbers go on.
    ``threads`` issue to this queue; they run no further ahead than the stream asks for, unless they are several.
    """

    loop: StreamLoop
    per_step: int
    ends_ns: array[int] = field(default_factory=lambda: array("q"))  # of what the stream is done with, by number
    threads: list[HostThread] = field(default_factory=list)
    issued: dict[int, Issued] = field(default_factory=dict)
    stream: Walk | None = None  # waits for what is next
    _held: dict[int, list[HostThread]] = field(
        default_factory=dict
    )  # threads that wait for an end, of folded ranks too

    def next(self) -> Issued | None:
        """Return what was issued next after all that has ended; None while the CPU cannot get there yet."""
        number = len(self.ends_ns)
        found = self.issued.pop(number, None)
        if found is None:
            for thread in self.threads:
                thread.advance(self.issued, number)
            found = self.issued.pop(number, None)
        return found

    def issue(self, number: int, issued: Issued) -> None:
        """Let the stream know when the CPU issues an instruction."""
        self.issued[number] = issued
        if self.stream is not None and number == len(self.ends_ns):
            self.loop.release(self.stream)
            self.stream = None

    def end(self, time_ns: int) -> None:
        """Note that the stream is done with its next instruction."""
        self.ends_ns.append(time_ns)
        if self._held:
            for thread in self._held.pop(len(self.ends_ns) - 1, ()):
                thread.resume()

    def extend(self, times_ns: Int64) -> None:
        """Note that the stream is done with its next instructions; ``tell`` lets threads know that wait for it."""
        first = len(self.ends_ns)
        self.ends_ns.frombytes(times_ns.tobytes())
        if self.issued:
            for number in range(first, len(self.ends_ns)):
                self.issued.pop(number, None)

    def tell(self) -> None:
        """Let threads go on that wait for an end which is known."""
        for number in [number for number in self._held if number < len(self.ends_ns)]:
            for thread in self._held.pop(number):
                thread.resume()

    def hold(self, number: int, thread: HostThread) -> None:
        """Let a thread go on when the stream is done with an instruction."""
        self._held.setdefault(number, []).append(thread)

    @property
    def quiet(self) -> bool:
        """Whether nothing is issued that has not ended, and no thread waits for an end."""
        return not self.issued and not self._held

"""What the CPU has issued to one stream, and what of it the stream is done with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from simpy import Environment, Event

from simgpu.engine.launches import Launches


class Issued(NamedTuple):
    """When the CPU began to issue an instruction, and what it took from there."""

    begin_ns: int
    launches: Launches


@dataclass(slots=True, eq=False)
class LaunchQueue:
    """The launches of a stream between the CPU and the GPU.

    ``numbers`` counts the instructions of a step that the CPU issues, by their position in the stream; over the steps
    the numbers go on.
    """

    env: Environment
    numbers: Mapping[int, int]
    ends_ns: list[int] = field(default_factory=list)  # of what the stream is done with, by number
    _issued: dict[int, Issued] = field(default_factory=dict)
    _stream: Event | None = None  # waits for what is next
    _hosts: dict[int, Event] = field(default_factory=dict)  # wait for an end

    @property
    def per_step(self) -> int:
        return len(self.numbers)

    def issue(self, number: int, issued: Issued) -> None:
        """Let the stream know when the CPU issues an instruction."""
        self._issued[number] = issued
        if self._stream is not None and number == len(self.ends_ns):
            self._stream.succeed()
            self._stream = None

    def next(self) -> Issued | None:
        """Return what was issued next after all that has ended; None while the CPU is not there yet."""
        return self._issued.pop(len(self.ends_ns), None)

    def filled(self) -> Event:
        """Return an event that fires when the next instruction is issued."""
        self._stream = self.env.event()
        return self._stream

    def end(self, time_ns: int) -> None:
        """Note that the stream is done with its next instruction."""
        host = self._hosts.pop(len(self.ends_ns), None)
        self.ends_ns.append(time_ns)
        if host is not None:
            host.succeed()

    def ended(self, number: int) -> Event:
        """Return an event that fires when the stream is done with an instruction."""
        return self._hosts.setdefault(number, self.env.event())

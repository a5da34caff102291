"""Ranks that take blocks together, one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field

from simpy import Environment

from simgpu.engine.gathering import Arrival, Gathering
from simgpu.engine.rank import StreamLoop
from simgpu.engine.ready_blocks import ReadyBlocks


@dataclass(slots=True, eq=False)
class BlockGroup:
    """Those that meet in the collectives of a block, or one rank by itself.

    Where one of them cannot take a block, all play it instruction by instruction.
    """

    env: Environment
    loop: StreamLoop
    ready: ReadyBlocks
    size: int
    refused: int = -1  # the last block that they did not take together
    _open: dict[int, Gathering] = field(default_factory=dict)  # by number of the block: some are ahead by one

    @property
    def now_ns(self) -> int:
        """The clock."""
        return int(self.env.now)

    def come(self, number: int, arrival: Arrival) -> bool | None:
        """Come to a block; return whether all have taken it, None to wait for that."""
        gathering = self._open.get(number)
        if gathering is None:
            gathering = self._open[number] = Gathering(self, number)
        return gathering.come(arrival)

    def close(self, gathering: Gathering) -> None:
        """Forget a block that all have taken."""
        self._open.pop(gathering.number, None)

    def refuse(self, number: int) -> None:
        """Let everybody play a block, now and whenever they come."""
        self.refused = max(self.refused, number)
        gathering = self._open.pop(number, None)
        here = [] if gathering is None else gathering.here
        for arrival in here:
            arrival.blocks.host.free()
        for arrival in here:
            self.loop.release(arrival.walk)

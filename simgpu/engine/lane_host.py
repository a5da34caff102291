"""The CPU thread of a rank while it issues a block that is played by itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from simgpu.engine.host import HostThread
from simgpu.engine.launches import Launches


class UnforeseenError(Exception):
    """The CPU waits for something that is not known before the block is played."""


@dataclass(slots=True, eq=False)
class LaneHost:
    """The CPU thread of a lane; the thread itself is left where it stands.

    Parameters
    ----------
    thread : HostThread
        At the block's first row.
    first, last : int
        The block's rows, ``last`` not included.
    step : int
    """

    thread: HostThread
    first: int
    last: int
    step: int
    ends_ns: list[list[int]] = field(init=False)  # by place of the queue: what ended in the block
    _local_ns: int = field(init=False)
    _spent_ns: int = 0
    _begins: list[tuple[int, int, Launches]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._local_ns = self.thread.local_ns
        self.ends_ns = [[] for _ in self.thread.queues]

    def issue(self, row: int) -> tuple[int, int, Launches]:
        """Return when the CPU begins with a row of the block, its own time until then, and what it launches.

        Raises
        ------
        UnforeseenError
        """
        if len(self._begins) <= row:
            self._go_on()
            if len(self._begins) <= row:
                raise UnforeseenError
        return self._begins[row]

    def _go_on(self) -> None:
        """Issue as far as it is known what the CPU waits for."""
        thread, script, begins = self.thread, self.thread.script, self._begins
        local, spent, queues, step = self._local_ns, self._spent_ns, thread.queues, self.step
        for at in range(self.first + len(begins), self.last):
            launches = script.launches[at]
            if launches is None:
                break
            place = script.kinds[at]
            queue = queues[place]
            needed = script.numbers[at] + step * queue.per_step - script.lags[at]
            if needed >= 0:
                done = len(queue.ends_ns)
                if needed < done:
                    end = queue.ends_ns[needed]
                elif needed - done < len(self.ends_ns[place]):
                    end = self.ends_ns[place][needed - done]
                else:
                    break
                if end > local:
                    local = end
            begins.append((local, spent, launches))
            local += launches.total_ns
            spent += launches.total_ns
        self._local_ns, self._spent_ns = local, spent

    def end_ns(self) -> int:
        """Return when the CPU has issued all of the block.

        Raises
        ------
        UnforeseenError
        """
        begin, _, launches = self.issue(self.last - self.first - 1)
        return begin + launches.total_ns

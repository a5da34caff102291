"""The CPU's side of a Program: who issues what, how long it takes, and what a full queue waits for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from simgpu.engine.host import QUEUE_DEPTH, is_host
from simgpu.program import HOST, Collective, Compute, Instruction, Issue, Program, Recv, Send
from simgpu.script import Block, Script, pieces_of
from simgpu.timeline import Int64

Work = Compute | Collective | Send | Recv
_TRANSFERS = (Collective, Send, Recv)


@dataclass(frozen=True, slots=True)
class HostPlace:
    """A place in a CPU thread's instructions, in one of the steps."""

    rank: int
    stream: str
    step: int
    position: int
    instructions: Sequence[Instruction]

    @property
    def instruction(self) -> Instruction:
        return self.instructions[self.position]

    def before(self) -> HostPlace:
        """Return the place before; of the first one, the last of the step before.

        Examples
        --------
        >>> place = HostPlace(0, "host", 1, 0, (Issue(stream="compute", instruction=0, op_ns=1, launch_ns=1),) * 3)
        >>> place.before().step, place.before().position
        (0, 2)
        """
        position, step = self.position - 1, self.step
        if position < 0:
            position, step = len(self.instructions) - 1, step - 1
        return HostPlace(self.rank, self.stream, step, position, self.instructions)


@dataclass(slots=True)
class LaunchChain:
    """Looks up a Program's Issues; a key is (rank, index of the stream, instruction, step), as of a span.

    Parameters
    ----------
    program : Program
    streams : tuple of str
        Those of the Timeline.
    """

    program: Program
    streams: tuple[str, ...]
    _homes: dict[tuple[int, str, int], tuple[int, str, int]] = field(default_factory=dict)  # of what is in no block
    _inside: dict[int, dict[tuple[str, int], tuple[str, int]]] = field(default_factory=dict)  # by identity of the block
    _issuing: dict[tuple[int, str], bool] = field(default_factory=dict)
    _before: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    _kernels: dict[int, int] = field(default_factory=dict)  # launches, by identity of the kernels
    _sizes: dict[int, tuple[Sequence[Instruction], Int64]] = field(default_factory=dict)  # by identity of a piece

    def __post_init__(self) -> None:
        for rank, binding in enumerate(self.program.ranks):
            for name, items in self.program.roles[binding.role].streams.items():
                for first, found, use in pieces_of(items) if self.issues(binding.role, name) else ():
                    for position, item in enumerate(found if use is None else (), first):
                        if isinstance(item, Issue):
                            target = self._target_rank(rank, item)
                            self._homes[target, item.stream, item.instruction] = rank, name, position

    def issues(self, role: int, stream: str) -> bool:
        """Whether a stream is a thread of the CPU."""
        found = self._issuing.get((role, stream))
        if found is None:
            found = self._issuing[role, stream] = is_host(self.program.roles[role].streams[stream])
        return found

    def place(self, key: tuple[int, int, int, int]) -> HostPlace:
        """Return where the CPU issues an instruction."""
        rank, name, at = key[0], self.streams[key[1]], key[2]
        items = self._items(rank, name)
        piece = items.piece(at) if isinstance(items, Script) else None
        if piece is not None and piece.use is not None:
            host, position = self._issued(piece.use.block)[name, at - piece.first]
            return HostPlace(rank, host, key[3], piece.use.first[host] + position, self._items(rank, host))
        by, host, position = self._homes[rank, name, at]
        return HostPlace(by, host, key[3], position, self._items(by, host))

    def _issued(self, block: Block) -> dict[tuple[str, int], tuple[str, int]]:
        """Return where a block's instructions are issued: in the block too, by the rank's own CPU."""
        found = self._inside.get(id(block))
        if found is None:
            found = self._inside[id(block)] = {
                (item.stream, item.instruction): (name, position)
                for name, items in block.streams.items()
                for position, item in enumerate(items)
                if isinstance(item, Issue)
            }
        return found

    def target(self, place: HostPlace) -> tuple[int, int, int, int] | None:
        """Return the key of what is issued at a place; None where nothing is."""
        item = place.instruction
        if not isinstance(item, Issue):
            return None
        return (
            self._target_rank(place.rank, item), self.streams.index(item.stream), item.instruction, place.step
        )  # fmt: skip

    def work(self, key: tuple[int, int, int, int]) -> Work:
        """Return the instruction that a key names."""
        found = self._items(key[0], self.streams[key[1]])[key[2]]
        assert isinstance(found, Work)  # nothing else is issued
        return found

    def total_ns(self, place: HostPlace) -> int:
        """Return what the CPU needs to issue all of what is issued at a place; 0 where nothing is."""
        key, item = self.target(place), place.instruction
        if key is None or not isinstance(item, Issue):
            return 0
        work = self.work(key)
        return launched_ns(work, item, len(work.kernels)) if isinstance(work, Compute) else item.op_ns

    def needed(self, key: tuple[int, int, int, int]) -> tuple[int, int] | None:
        """Return step and instruction that must have ended before an instruction could be issued to a full queue.

        None when the queue has had room since the first step.
        """
        rank, stream, position, step = key
        before = self._launches_before(rank, self.streams[stream])
        total = before[-1]
        if not total:
            return None
        left = QUEUE_DEPTH - 1
        if step >= 0 and before[position] <= left:  # all of this step's fit: go on in those before
            left -= before[position]
            whole = left // total
            left, step, position = left - whole * total, step - 1 - whole, len(before) - 1
        if step < 0:
            return None
        return step, bisect_left(before, before[position] - left) - 1  # the last place with more behind it

    def _launches_before(self, rank: int, stream: str) -> list[int]:
        """Return how many launches a stream has before each place, as far as a queue tells them apart."""
        role = self.program.ranks[rank].role
        found = self._before.get((role, stream))
        if found is None:
            parts = [np.zeros(1, np.int64)]
            for _, items, _ in pieces_of(self._items(rank, stream)):
                if id(items) not in self._sizes:
                    sizes = np.fromiter(map(self._launches, items), np.int64, len(items))
                    self._sizes[id(items)] = items, np.minimum(sizes, QUEUE_DEPTH - 1)
                parts.append(self._sizes[id(items)][1])
            found = self._before[role, stream] = np.cumsum(np.concatenate(parts)).tolist()
        return found

    def _launches(self, item: Instruction) -> int:
        """Return how many launches an instruction takes; runs of the same kernels take as many."""
        if type(item) is not Compute:
            return int(isinstance(item, _TRANSFERS))
        known = self._kernels.get(id(item.kernels))
        if known is None:
            known = self._kernels[id(item.kernels)] = sum(kernel.launches for kernel in item.kernels)
        return known

    def _items(self, rank: int, stream: str) -> Sequence[Instruction]:
        return self.program.roles[self.program.ranks[rank].role].streams[stream]

    def _target_rank(self, rank: int, issue: Issue) -> int:
        if issue.member < 0:
            return rank
        return self.program.groups[self.program.ranks[rank].groups[HOST]].members[issue.member]


def launched_ns(work: Compute, issue: Issue, kernels: int) -> int:
    """Return how long the CPU needs to issue the first so many kernels of a run.

    Parameters
    ----------
    work : Compute
    issue : Issue
    kernels : int

    Returns
    -------
    int, nanoseconds

    Examples
    --------
    >>> from simgpu.program import Kernel
    >>> add = Kernel(name="add", op_class="memory_bound", duration_ns=2, launches=3)
    >>> run = Compute(name="run", kernels=(add, add), duration_ns=4, phase="forward")
    >>> launched_ns(run, Issue(stream="compute", instruction=0, op_ns=10, launch_ns=5), 2)
    40
    """
    each: Sequence[int] = [
        issue.op_ns + (kernel.launches - 1) * issue.launch_ns if kernel.launches else 0
        for kernel in work.kernels[:kernels]
    ]
    return sum(each)

"""A stream while it is written, and the instructions of it that become a block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from simgpu.program import Alloc, Free, Instruction, Issue, Record, Wait
from simgpu.script import Piece, Script, Use


@dataclass(slots=True, eq=False)
class Draft:
    """A stream under construction.

    Parameters
    ----------
    stream : str
        Its name.
    """

    stream: str
    _pieces: list[Piece] = field(default_factory=list)
    _tail: list[Instruction] = field(default_factory=list)
    _begin: int = 0  # position of the tail

    def __len__(self) -> int:
        return self._begin + len(self._tail)

    def append(self, instruction: Instruction) -> None:
        """Add an instruction."""
        self._tail.append(instruction)

    @property
    def last_record(self) -> int | None:
        """Event number of the last instruction where that is a Record."""
        if self._tail:
            last = self._tail[-1]
            return last.event if isinstance(last, Record) else None
        if not self._pieces:
            return None
        _, items, use = self._pieces[-1]
        last = items[-1]
        return last.event + (0 if use is None else use.event) if isinstance(last, Record) else None

    def cut(self, position: int) -> list[Instruction]:
        """Return what was added since the stream had a length, which is no earlier than the last use."""
        return self._tail[position - self._begin :]

    def use(self, use: Use) -> None:
        """Add a use of a block at the end, in the place of what stands there from its first position on."""
        first, items = use.first[self.stream], use.block.streams[self.stream]
        del self._tail[first - self._begin :]
        self._close()
        self._pieces.append(Piece(first, items, use))
        self._begin = first + len(items)

    def _close(self) -> None:
        if self._tail:
            self._pieces.append(Piece(self._begin, tuple(self._tail), None))
            self._begin, self._tail = self._begin + len(self._tail), []

    def finished(self) -> Sequence[Instruction]:
        """Return the stream: a plain tuple where no block is used."""
        if not self._pieces:
            return tuple(self._tail)
        self._close()
        return Script(self.stream, tuple(self._pieces))


def instance(
    items: Sequence[Instruction], first: Mapping[str, int], event: int, microbatch: int
) -> tuple[Instruction, ...] | None:
    """Turn instructions of a stream into those of a block; None where they cannot stand elsewhere.

    Parameters
    ----------
    items : sequence of Instruction
    first : mapping of str to int
        Positions at which the block begins on the streams that there were; 0 on others.
    event : int
        Last event number before it; what waits for that one or an earlier one is bound to its place.
    microbatch : int
        Of all its work.

    Examples
    --------
    >>> instance((Record(4), Wait(4)), {}, 3, 0), instance((Wait(3),), {}, 3, 0)
    ((Record(event=1), Wait(event=1)), None)
    """
    found: list[Instruction] = []
    for item in items:
        if isinstance(item, (Record, Wait)):
            if item.event <= event:
                return None
            found.append(type(item)(item.event - event))
        elif isinstance(item, Issue):
            begin = first.get(item.stream, 0)
            if item.member >= 0 or item.instruction < begin:
                return None
            at = item.instruction - begin
            found.append(Issue(stream=item.stream, instruction=at, op_ns=item.op_ns, launch_ns=item.launch_ns))
        elif isinstance(item, (Alloc, Free)) or item.microbatch == microbatch:
            found.append(item)
        else:
            return None
    return tuple(found)

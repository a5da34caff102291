"""What a role does on one stream, where stretches that come again and again are written once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final, NamedTuple, TypeVar, overload

from simgpu.program import Alloc, Free, Instruction, Issue, Record, Wait

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """Instructions of several streams that a role repeats, such as the forward pass of a stage.

    Parameters
    ----------
    streams : mapping of str to tuple of Instruction
        Positions that an Issue names count from the block's begin, events from 1. Every event that is waited for is
        recorded here too.
    events : int
        How many event numbers it takes.
    """

    streams: Mapping[str, tuple[Instruction, ...]]
    events: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Use:
    """One time that a role runs a block.

    Parameters
    ----------
    block : Block
    first : mapping of str to int
        Position on each of its streams of the block's first instruction.
    event : int
        What is added to event numbers.
    microbatch : int
    """

    block: Block
    first: Mapping[str, int]
    event: int
    microbatch: int

    def instructions(self, stream: str) -> Iterator[Instruction]:
        """Write the block's instructions of a stream out, as if they stood there by themselves."""
        return map(self.written, self.block.streams[stream])

    def written(self, item: Instruction) -> Instruction:
        """Return one of the block's instructions with the numbers that it has here."""
        if isinstance(item, Issue):
            return replace(item, instruction=item.instruction + self.first[item.stream])
        if isinstance(item, Record | Wait):
            return type(item)(item.event + self.event)
        if isinstance(item, Alloc | Free) or item.microbatch == self.microbatch:
            return item
        return replace(item, microbatch=self.microbatch)


class Piece(NamedTuple):
    """Consecutive instructions of a stream: as they stand, or a use of a block."""

    first: int
    items: tuple[Instruction, ...]
    use: Use | None


_first: Final = attrgetter("first")


@dataclass(frozen=True, slots=True, eq=False)
class Script(Sequence[Instruction]):
    """The instructions of a stream in pieces; written out when one is asked for.

    Examples
    --------
    >>> block = Block(streams={"compute": (Record(1),)}, events=1)
    >>> uses = [Use(block=block, first={"compute": n}, event=n, microbatch=n) for n in range(2)]
    >>> script = Script("compute", tuple(Piece(n, block.streams["compute"], use) for n, use in enumerate(uses)))
    >>> len(script), script[1], list(script.distinct())
    (2, Record(event=2), [Record(event=1)])
    """

    stream: str
    pieces: tuple[Piece, ...]
    _written: list[tuple[Instruction, ...]] = field(default_factory=list, repr=False)

    def distinct(self) -> Iterator[Instruction]:
        """Yield the instructions, those of a block once only and as they stand in it."""
        seen: set[int] = set()
        for piece in self.pieces:
            if piece.use is None or id(piece.use.block) not in seen:
                yield from piece.items
            if piece.use is not None:
                seen.add(id(piece.use.block))

    def __len__(self) -> int:
        return self.pieces[-1].first + len(self.pieces[-1].items) if self.pieces else 0

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.all)

    @property
    def all(self) -> tuple[Instruction, ...]:
        """The instructions, written out."""
        if not self._written:
            whole: list[Instruction] = []
            for piece in self.pieces:
                whole += piece.items if piece.use is None else piece.use.instructions(self.stream)
            self._written.append(tuple(whole))
        return self._written[0]

    @overload
    def __getitem__(self, index: int) -> Instruction: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Instruction, ...]: ...
    def __getitem__(self, index: int | slice) -> Instruction | tuple[Instruction, ...]:
        if self._written or isinstance(index, slice):
            return self.all[index]
        position = range(len(self))[index]
        piece = self.piece(position)
        item = piece.items[position - piece.first]
        return item if piece.use is None else piece.use.written(item)

    def piece(self, position: int) -> Piece:
        """Return the piece that a position is in."""
        return self.pieces[bisect_right(self.pieces, position, key=_first) - 1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self.all == tuple(other)

    def __hash__(self) -> int:
        return hash(self.all)

    def __repr__(self) -> str:
        return repr(self.all)


def pieces_of(instructions: Sequence[Instruction]) -> tuple[Piece, ...]:
    """Return the pieces of a stream; a plain sequence is one.

    Examples
    --------
    >>> pieces_of((Record(1),))
    (Piece(first=0, items=(Record(event=1),), use=None),)
    """
    if isinstance(instructions, Script):
        return instructions.pieces
    return (Piece(0, tuple(instructions), None),) if instructions else ()


def as_written(instructions: Sequence[Instruction], position: int) -> Instruction:
    """Return an instruction as it stands in its piece: of a block, with the block's own numbers.

    Examples
    --------
    >>> as_written((Record(1), Record(2)), 1)
    Record(event=2)
    """
    if not isinstance(instructions, Script):
        return instructions[position]
    piece = instructions.piece(position)
    return piece.items[position - piece.first]


def each(instructions: Sequence[Instruction], find: Callable[[Instruction], Found]) -> list[Found]:
    """Return what a function finds for each instruction; it is asked once for those of a block, as they stand there.

    Examples
    --------
    >>> each((Record(1), Record(2)), lambda item: item.event)
    [1, 2]
    """
    if not isinstance(instructions, Script):
        return [find(item) for item in instructions]
    found: list[Found] = []
    known: dict[int, list[Found]] = {}
    for _, items, use in instructions.pieces:
        if use is None:
            found += [find(item) for item in items]
            continue
        if id(use.block) not in known:
            known[id(use.block)] = [find(item) for item in items]
        found += known[id(use.block)]
    return found


def distinct(instructions: Sequence[Instruction]) -> Iterator[Instruction]:
    """Yield the instructions of a stream, those of a block once only."""
    return instructions.distinct() if isinstance(instructions, Script) else iter(instructions)


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
        if isinstance(item, Issue):
            begin = first.get(item.stream, 0)
            if item.member >= 0 or item.instruction < begin:
                return None
            found.append(replace(item, instruction=item.instruction - begin) if begin else item)
        elif isinstance(item, Record | Wait):
            if item.event <= event:
                return None
            found.append(type(item)(item.event - event))
        elif isinstance(item, Alloc | Free) or item.microbatch == microbatch:
            found.append(item)
        else:
            return None
    return tuple(found)

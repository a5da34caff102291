"""What a role does on one stream, where stretches that come again and again are written once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final, NamedTuple, overload

from simgpu.program import Alloc, Compute, Free, Instruction, Issue, Record, Wait


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
        if isinstance(item, Compute):  # most are; `replace` takes four times as long
            return Compute(
                name=item.name,
                kernels=item.kernels,
                duration_ns=item.duration_ns,
                phase=item.phase,
                microbatch=self.microbatch,
                unit=item.unit,
            )
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


def distinct(instructions: Sequence[Instruction]) -> Iterator[Instruction]:
    """Yield the instructions of a stream, those of a block once only."""
    return instructions.distinct() if isinstance(instructions, Script) else iter(instructions)
